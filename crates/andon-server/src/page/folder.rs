//! Serves the files of a folder.
//!
//! # Invariants
//!
//! 1. Only files inside the folder are served, wherever links in it point.

use std::path::{Component, Path, PathBuf};

use axum::body::Bytes;

/// The media type and content of a file; `None` if there is no such file in the folder.
///
/// # Cancel safety
///
/// Cancel safe: it only reads.
pub async fn read_file(folder: &Path, file: &str) -> Option<(&'static str, Bytes)> {
    let place = within(folder, file).await?;
    let bytes = tokio::fs::read(&place).await.ok()?;
    Some((kind(file), bytes.into()))
}

/// The path of a file, if it is inside the folder (invariant 1).
async fn within(folder: &Path, file: &str) -> Option<PathBuf> {
    let asked = Path::new(file);
    if !asked.components().all(|step| matches!(step, Component::Normal(_))) {
        return None;
    }
    let folder = tokio::fs::canonicalize(folder).await.ok()?;
    let place = tokio::fs::canonicalize(folder.join(asked)).await.ok()?;
    let is_file = tokio::fs::metadata(&place).await.is_ok_and(|found| found.is_file());
    (is_file && place.starts_with(&folder)).then_some(place)
}

/// The media type of a file, by its extension.
pub(crate) fn kind(file: &str) -> &'static str {
    match Path::new(file).extension().and_then(|end| end.to_str()).unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "ico" => "image/x-icon",
        "wasm" => "application/wasm",
        "woff2" => "font/woff2",
        "woff" => "font/woff",
        "ttf" => "font/ttf",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_outside_of_the_folder_is_found_by_steps_or_by_links() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("page");
        std::fs::create_dir_all(folder.join("assets")).unwrap();
        std::fs::write(outer.path().join("secret"), "s").unwrap();
        std::fs::write(folder.join("index.html"), "page").unwrap();
        std::fs::write(folder.join("assets/a.js"), "js").unwrap();
        std::os::unix::fs::symlink(outer.path().join("secret"), folder.join("link")).unwrap();
        std::os::unix::fs::symlink(outer.path(), folder.join("up")).unwrap();
        std::os::unix::fs::symlink(folder.join("index.html"), folder.join("inner")).unwrap();
        for found in ["index.html", "assets/a.js", "inner"] {
            assert!(within(&folder, found).await.is_some(), "{found}");
        }
        let secret = outer.path().join("secret");
        for hidden in [
            "link",
            "up/secret",
            "../secret",
            "assets/../../secret",
            "assets",
            "",
            ".",
            "none",
            secret.to_str().unwrap(),
            "a\0b",
        ] {
            assert!(within(&folder, hidden).await.is_none(), "{hidden:?}");
        }
    }
}
