//! Linker arguments of a Python extension: on macOS the interpreter provides symbols at load time.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
