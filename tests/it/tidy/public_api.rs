//! The public API of the library, compared with the listing that reviews see.
//!
//! The items come from rustdoc's JSON, the signatures from the source text that it points to.
//! `UPDATE_PUBLIC_API=1 cargo nextest run -p redrive-tests public_api` rewrites the listing.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

const LISTING: &str = "crates/redrive/public-api.txt";

#[test]
fn the_public_api_is_the_committed_listing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let listing = Listing::read(root).lines();
    let path = root.join(LISTING);
    if env::var_os("UPDATE_PUBLIC_API").is_some() {
        fs::write(&path, listing.join("\n") + "\n").unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let committed: BTreeSet<&str> = committed.lines().collect();
    let actual: BTreeSet<&str> = listing.iter().map(String::as_str).collect();
    let added: Vec<_> = actual.difference(&committed).collect();
    let removed: Vec<_> = committed.difference(&actual).collect();
    assert!(
        added.is_empty() && removed.is_empty(),
        "the public API changed; if that is intended, set UPDATE_PUBLIC_API=1 and run this test \
         again\nadded: {added:#?}\nremoved: {removed:#?}"
    );
}

/// Walks the documentation and collects one line per public item.
struct Listing {
    root: PathBuf,
    index: HashMap<String, Value>,
    start: String,
    sources: HashMap<PathBuf, Vec<String>>,
    lines: BTreeSet<String>,
}

impl Listing {
    fn read(root: &Path) -> Listing {
        let target = root.join("target/public-api");
        let output = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
            .current_dir(root)
            // rustdoc's JSON is unstable; rust-toolchain.toml pins its format.
            .env("RUSTC_BOOTSTRAP", "1")
            .args([
                "rustdoc",
                "--quiet",
                "--package",
                "redrive",
                "--lib",
                "--all-features",
            ])
            .arg("--target-dir")
            .arg(&target)
            .args(["--", "-Zunstable-options", "--output-format", "json"])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let json = fs::read(target.join("doc/redrive.json")).unwrap();
        let mut json: Value = serde_json::from_slice(&json).unwrap();
        Listing {
            root: root.to_owned(),
            start: json["root"].to_string(),
            index: serde_json::from_value(json["index"].take()).unwrap(),
            sources: HashMap::new(),
            lines: BTreeSet::new(),
        }
    }

    fn lines(mut self) -> Vec<String> {
        let start = self.start.clone();
        self.item("redrive", &start);
        self.lines.into_iter().collect()
    }

    /// Adds an item, known as `path`, and everything public in it.
    fn item(&mut self, path: &str, id: &str) {
        let Some(item) = self.index.get(id).cloned() else {
            return;
        };
        let inner = item["inner"].as_object().unwrap();
        let (kind, body) = inner.iter().next().unwrap();
        match &**kind {
            "module" => self.children(path, &body["items"]),
            "use" => match self.index.contains_key(&body["id"].to_string()) {
                true => self.item(path, &body["id"].to_string()),
                false => self.add(path, &format!("use {}", body["source"].as_str().unwrap())),
            },
            "impl" => self.implementation(path, body),
            _ => {
                let signature = self.signature(&item, kind);
                self.add(path, &signature);
                self.children(path, &body["kind"]["plain"]["fields"]);
                self.children(path, &body["variants"]);
                self.children(path, &body["items"]);
                for id in body["impls"].as_array().into_iter().flatten() {
                    self.item(path, &id.to_string());
                }
            }
        }
    }

    fn children(&mut self, path: &str, ids: &Value) {
        for id in ids.as_array().into_iter().flatten() {
            let id = id.to_string();
            let Some(item) = self.index.get(&id) else {
                continue;
            };
            let name = item["inner"]["use"]["name"]
                .as_str()
                .or(item["name"].as_str())
                .unwrap_or_default()
                .to_owned();
            self.item(&format!("{path}::{name}"), &id);
        }
    }

    /// Lists the methods of the type itself, and the traits that it implements in its source.
    fn implementation(&mut self, path: &str, body: &Value) {
        if body["is_synthetic"] == true || !body["blanket_impl"].is_null() {
            return;
        }
        match body["trait"]["path"].as_str() {
            None => self.children(path, &body["items"]),
            Some(of) => self.add(path, &format!("impl {of}")),
        }
    }

    fn add(&mut self, path: &str, signature: &str) {
        self.lines.insert(format!("{path}: {signature}"));
    }

    /// Returns the declaration as the source has it, on one line and without its body.
    fn signature(&mut self, item: &Value, kind: &str) -> String {
        let span = &item["span"];
        let Some(file) = span["filename"].as_str() else {
            return kind.to_owned();
        };
        let path = self.root.join(file);
        let source = self.sources.entry(path).or_insert_with_key(|path| {
            let text = fs::read_to_string(path).unwrap();
            text.lines().map(str::to_owned).collect()
        });
        let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
        let (from, to) = (number(&span["begin"][0]) - 1, number(&span["end"][0]));
        let text = source[from..to].join(" ");
        let text = match kind {
            "variant" | "struct_field" => text,
            "constant" | "static" => listed_constant(&text),
            "struct" => text.split(['{', '(']).next().unwrap_or_default().to_owned(),
            _ => text.split('{').next().unwrap_or_default().to_owned(),
        };
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Returns a constant with its value. A list is a body and is left out.
fn listed_constant(text: &str) -> String {
    match text.split_once(" = &[") {
        Some((declaration, _)) => format!("{declaration};"),
        None => text.to_owned(),
    }
}
