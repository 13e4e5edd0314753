//! The page is in the program: a file that is added to it makes the program anew.

fn main() {
    println!("cargo:rerun-if-changed=../../web");
}
