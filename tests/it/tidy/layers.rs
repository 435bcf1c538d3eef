//! Layers: a module uses only modules above it, in the order of the `mod` lines of their parent.
//!
//! A parent and what is below it are one layer: they may use each other. A path in a text would
//! count as a use.

use std::collections::{BTreeMap, BTreeSet};

use super::{assert_none, files, read, root};

/// The path of a module in its crate.
type Module = Vec<String>;

/// A crate: its modules in order, what they use and what they re-export.
#[derive(Default)]
struct Crate {
    children: BTreeMap<Module, Vec<String>>,
    exports: BTreeMap<Module, BTreeMap<String, Module>>,
    uses: BTreeMap<Module, BTreeSet<Module>>,
}

/// Returns the paths of a `use` tree, and the name that each gets.
fn tree(prefix: &str, text: &str) -> Vec<(String, String)> {
    let text = text.trim();
    let Some((head, inside)) = text.split_once('{') else {
        let (path, alias) = text.split_once(" as ").unwrap_or((text, ""));
        let path = format!("{prefix}{path}");
        let path = path.trim_start_matches("self::").trim_end_matches("::self");
        let name = path.rsplit("::").next().filter(|_| alias.is_empty());
        return vec![(path.to_owned(), name.unwrap_or(alias).to_owned())];
    };
    let prefix = format!("{prefix}{head}");
    let mut depth = 0;
    let parts = inside.strip_suffix('}').unwrap_or(inside).split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| tree(&prefix, part)).collect()
}

/// Returns the path as seen from the root, or none if it leads out of the crate.
fn absolute(module: &Module, path: &str) -> Option<Module> {
    let path: Module = path.split("::").map(str::to_owned).collect();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let above = &module[..module.len().checked_sub(ups)?];
            Some([above, &path[ups..]].concat())
        }
        _ => None,
    }
}

impl Crate {
    fn read(name: &str) -> Crate {
        let mut found = Crate::default();
        let source = format!("crates/{name}/src");
        for path in files(&source, &["rs"]) {
            let relative = path.strip_prefix(root().join(&source));
            let relative = relative.expect("below the sources").with_extension("");
            let parts = relative.iter();
            let parts = parts.map(|part| part.to_string_lossy().into_owned());
            let module: Module = parts.collect();
            let is_of_tests = |part: &String| part == "tests" || part == "proptests";
            // Tests may use every module.
            if module.iter().any(is_of_tests) {
                continue;
            }
            let code = read(&path);
            let code = code.split("#[cfg(test)]\nmod tests").next();
            let lines = code.unwrap_or_default().lines();
            let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
            let code = lines.collect::<Vec<_>>().join("\n");
            match module == ["lib"] {
                true => found.add(&Module::new(), &code),
                false => found.add(&module, &code),
            }
        }
        found
    }

    fn add(&mut self, module: &Module, code: &str) {
        let children = code.lines().filter_map(|line| {
            let (visibility, name) = line.strip_suffix(';')?.split_once("mod ")?;
            let is_module = visibility.is_empty() || visibility.starts_with("pub");
            is_module.then(|| name.to_owned())
        });
        let children = children.collect();
        self.children.insert(module.clone(), children);
        let (exports, uses) = (
            self.exports.entry(module.clone()).or_default(),
            self.uses.entry(module.clone()).or_default(),
        );
        for (place, _) in code.match_indices("use ") {
            let before = code[..place].rsplit('\n').next().unwrap_or_default();
            let text = code[place + 4..].split(';').next().unwrap_or_default();
            if !before.trim().is_empty() && !before.starts_with("pub") {
                continue;
            }
            for (path, name) in tree("", text) {
                let from_root = absolute(module, &path);
                if before.starts_with("pub") {
                    let path = path.split("::").map(str::to_owned);
                    let below = module.iter().cloned().chain(path).collect();
                    exports.insert(name, from_root.clone().unwrap_or(below));
                }
                uses.extend(from_root);
            }
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        for start in ["crate::", "super::"] {
            for (place, _) in code.match_indices(start) {
                // Of a longer path or of a name that ends like this.
                if code[..place].ends_with(|c: char| is_word(c) || c == ':') {
                    continue;
                }
                let path = code[place..].split(|c: char| !is_word(c) && c != ':');
                let path = path.map(|path| path.trim_end_matches(':'));
                uses.extend(path.take(1).filter_map(|path| absolute(module, path)));
            }
        }
    }

    /// Returns the module that a path leads to, through re-exports.
    fn module_of(&self, path: &[String], depth: usize) -> Module {
        let mut module = Module::new();
        for (place, part) in path.iter().enumerate() {
            let children = self.children.get(&module);
            if children.is_some_and(|children| children.contains(part)) {
                module.push(part.clone());
                continue;
            }
            let exported = self.exports.get(&module).and_then(|all| all.get(part));
            return match exported {
                Some(target) if depth < 8 => {
                    let target = [target.as_slice(), &path[place + 1..]].concat();
                    self.module_of(&target, depth + 1)
                }
                _ => module,
            };
        }
        module
    }

    /// Returns every use of a module that is not above its user.
    fn upward(&self) -> BTreeSet<String> {
        let mut upward = BTreeSet::new();
        for (user, paths) in &self.uses {
            for path in paths {
                let used = self.module_of(path, 0);
                let shared = user.iter().zip(&used).take_while(|(a, b)| a == b).count();
                let (Some(from), Some(to)) = (user.get(shared), used.get(shared)) else {
                    continue;
                };
                let order = &self.children[&user[..shared]];
                let place = |name: &String| order.iter().position(|child| child == name);
                if place(to) > place(from) {
                    upward.insert(format!("{} uses {}", user.join("::"), used.join("::")));
                }
            }
        }
        upward
    }
}

#[test]
fn a_module_uses_only_modules_above_it() {
    let mut offences = Vec::new();
    for name in ["redrive", "redrive-cli", "redrive-exporter"] {
        let found = Crate::read(name);
        let users = found.uses.values().filter(|paths| !paths.is_empty());
        assert!(users.count() > 5, "{name} has modules");
        offences.extend(found.upward());
    }
    assert_none(&offences);
}

#[test]
fn a_use_of_a_module_below_is_found() {
    let mut found = Crate::default();
    let user = "mod inner;\nuse crate::{\n    above::{self, A},\n    below::{C, D as E},\n};";
    let above = "fn a() { super::user::E::new(crate::user::inner::F) }";
    for (module, code) in [
        (&["user"][..], user),
        (&["user", "inner"], "pub use super::super::below::F;"),
        (&["above"], above),
        (&["below"], "use crate::above::A;"),
        (&[], "mod above;\npub(crate) mod user;\nmod below;"),
    ] {
        let module = module.iter().map(|part| (*part).to_owned()).collect();
        found.add(&module, code);
    }
    let upward = found.upward();
    let expected = [
        "above uses below",
        "above uses user",
        "user uses below",
        "user::inner uses below",
    ];
    assert!(upward.iter().eq(expected), "{upward:?}");
}
