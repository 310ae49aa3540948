//! Makes a capture: `cargo run -p dapple-photos --example photos -- PHOTOS CAPTURE`.

use dapple_photos::{Options, make};

fn main() -> dapple_base::Result<()> {
    let mut paths = std::env::args_os().skip(1).map(Into::into);
    let (Some(photos), Some(capture)) = (paths.next(), paths.next()) else {
        return Err(dapple_base::Error::input("give PHOTOS and CAPTURE"));
    };
    let mut options = Options::new(vec![photos], capture);
    options.accept = true;
    let done = make(&options, &dapple_base::NoProgress)?;
    for note in &done.notes {
        println!("note: {note}");
    }
    for finding in &done.review.findings {
        println!(
            "{:?}: {}. Remedy: {}",
            finding.kind, finding.what, finding.remedy
        );
    }
    println!(
        "{} of {} photos have a pose",
        done.review.registered, done.review.photos
    );
    Ok(())
}
