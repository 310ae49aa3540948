//! Scores as a table: for terminals, or in Markdown.

use super::paired::Paired;
use super::scores::{EvalReport, ImageScore};
use dapple_scene::printable;
use std::fmt::Write as _;

/// Formats one row for each image, by name, and their mean.
pub fn table(report: &EvalReport, markdown: bool) -> String {
    let mut names = heads(report.lpips.is_some(), &["PSNR dB", "SSIM", "LPIPS"]);
    if report.cc_psnr.is_some() {
        names.extend(["fitted PSNR".to_owned(), "fitted SSIM".to_owned()]);
    }
    let row = |name: &str, scores: [f64; 2], lpips: Option<f64>, fitted: [Option<f64>; 2]| {
        let mut row = vec![printable(name).into_owned()];
        row.extend([format!("{:.3}", scores[0]), format!("{:.4}", scores[1])]);
        row.extend(lpips.map(|lpips| format!("{lpips:.4}")));
        row.extend(fitted[0].map(|psnr| format!("{psnr:.3}")));
        row.extend(fitted[1].map(|ssim| format!("{ssim:.4}")));
        row
    };
    let of_image = |i: &ImageScore| row(&i.name, [i.psnr, i.ssim], i.lpips, [i.cc_psnr, i.cc_ssim]);
    let mut rows = vec![names];
    rows.extend(report.images.iter().map(of_image));
    let fitted = [report.cc_psnr, report.cc_ssim];
    rows.push(row(
        "mean",
        [report.psnr, report.ssim],
        report.lpips,
        fitted,
    ));
    aligned(&rows, markdown)
}

/// Formats one row for each image with the first run's scores and their difference to the second's; then the mean.
pub fn paired_table(report: &EvalReport, paired: &Paired, markdown: bool) -> String {
    let lpips = report.lpips.zip(paired.lpips.as_ref());
    let heads = heads(
        lpips.is_some(),
        &["PSNR dB", "A - B", "SSIM", "A - B", "LPIPS", "A - B"],
    );
    let row = |name: &str, scores: [f64; 2], more: [f64; 2], lpips: Option<[f64; 2]>| {
        let mut row = vec![
            printable(name).into_owned(),
            format!("{:.3}", scores[0]),
            format!("{:+.3}", more[0]),
            format!("{:.4}", scores[1]),
            format!("{:+.4}", more[1]),
        ];
        if let Some([lpips, more]) = lpips {
            row.extend([format!("{lpips:.4}"), format!("{more:+.4}")]);
        }
        row
    };
    let mut rows = vec![heads];
    for (i, image) in report.images.iter().enumerate() {
        let more = [paired.psnr.images[i], paired.ssim.images[i]];
        let lpips = lpips.and_then(|(_, paired)| Some([image.lpips?, paired.images[i]]));
        rows.push(row(&image.name, [image.psnr, image.ssim], more, lpips));
    }
    let more = [paired.psnr.mean, paired.ssim.mean];
    let lpips = lpips.map(|(mean, paired)| [mean, paired.mean]);
    rows.push(row("mean", [report.psnr, report.ssim], more, lpips));
    aligned(&rows, markdown)
}

fn heads(has_lpips: bool, names: &[&str]) -> Vec<String> {
    let kept = names.len() * if has_lpips { 3 } else { 2 } / 3;
    let mut row = vec!["image".to_owned()];
    row.extend(names[..kept].iter().map(|&name| name.to_owned()));
    row
}

/// Aligns names to the left and numbers to the right.
fn aligned(rows: &[Vec<String>], markdown: bool) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: Vec<String>| {
        let _ = match markdown {
            true => writeln!(text, "| {} |", cells.join(" | ")),
            false => writeln!(text, "{}", cells.join("  ")),
        };
    };
    for (number, row) in rows.iter().enumerate() {
        let cell = |(column, cell): (usize, &String)| match column {
            0 => format!("{cell:<0$}", widths[column]),
            _ => format!("{cell:>0$}", widths[column]),
        };
        line(row.iter().enumerate().map(cell).collect());
        if number == 0 && markdown {
            let rule = |(column, &width): (usize, &usize)| match column {
                0 => "-".repeat(width),
                _ => format!("{}:", "-".repeat(width.saturating_sub(1))),
            };
            line(widths.iter().enumerate().map(rule).collect());
        }
    }
    text
}
