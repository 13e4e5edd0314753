//! Checks races between threads with shuttle: see `threads.rs`.

fn main() {
    for (name, check) in andon_runtime::threads::ALL {
        println!("{name}");
        check();
    }
    println!("{} checks passed", andon_runtime::threads::ALL.len());
}
