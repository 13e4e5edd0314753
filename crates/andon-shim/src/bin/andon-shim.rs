//! The shim as a separate program, for hosts that cannot be their own shim: name its path with `andon_shim::set_helper`.

fn main() {
    andon_shim::init();
    eprintln!("andon-shim supervises one process for a program that uses Andon. That program starts it; you need not.");
    std::process::exit(2);
}
