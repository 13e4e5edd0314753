//! The shim as a program of its own, for hosts that cannot be their own: name its path with `andon_shim::set_helper`.

fn main() {
    andon_shim::init();
    eprintln!("andon-shim supervises one process for a program that uses Andon, which starts it by itself.");
    std::process::exit(2);
}
