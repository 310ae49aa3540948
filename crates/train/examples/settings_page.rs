//! Prints `docs/SETTINGS.md`; `cargo xtask docs` writes it.

fn main() -> dapple_scene::Result<()> {
    print!("{}", dapple_train::TrainConfig::page()?);
    Ok(())
}
