//! Settings of the linker for a library that Node.js loads.

fn main() {
    napi_build::setup();
    // A worker that ends would unload the library while its threads run.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
