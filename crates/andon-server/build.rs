//! The page is in the program: a file that is added to it makes cargo rebuild the program.

fn main() {
    println!("cargo:rerun-if-changed=web");
}
