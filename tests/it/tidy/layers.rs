//! Layers: a module uses only modules above it, in the order of the `mod` lines of their parent.
//!
//! A parent and what is below it are one layer: they may use each other. What a parent re-exports
//! counts as its own, and a path in a text as a use.

use std::collections::{BTreeMap, BTreeSet};

use super::{assert_none, files, read, root};

/// The path of a module in its crate.
type Module = Vec<String>;

/// A crate: its modules in order, and what they use.
#[derive(Default)]
struct Crate {
    children: BTreeMap<Module, Vec<String>>,
    uses: BTreeMap<Module, BTreeSet<Module>>,
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
        self.children.insert(module.clone(), children.collect());
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut uses = BTreeSet::new();
        for start in ["crate::", "super::"] {
            for (place, _) in code.match_indices(start) {
                // Of a longer path or of a name that ends like this.
                if code[..place].ends_with(|c: char| is_word(c) || c == ':') {
                    continue;
                }
                let code = &code[place..];
                let end = code.find(|c: char| !is_word(c) && c != ':');
                let (path, rest) = code.split_at(end.unwrap_or(code.len()));
                let names = rest.strip_prefix('{').and_then(|it| it.split('}').next());
                for name in names.unwrap_or_default().split(',') {
                    uses.extend(absolute(module, &format!("{path}{}", name.trim())));
                }
            }
        }
        self.uses.insert(module.clone(), uses);
    }

    /// Returns the module that a path leads to.
    fn module_of(&self, path: &[String]) -> Module {
        let mut module = Module::new();
        for part in path {
            match self.children.get(&module) {
                Some(children) if children.contains(part) => module.push(part.clone()),
                _ => break,
            }
        }
        module
    }

    /// Returns every use of a module that is not above its user.
    fn upward(&self) -> BTreeSet<String> {
        let mut upward = BTreeSet::new();
        for (user, paths) in &self.uses {
            for path in paths {
                let used = self.module_of(path);
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
    let user = "mod inner;\nuse super::{\n    above::A,\n    below::{C, D},\n};";
    let above = "fn a() { crate::user::inner::F::new() }";
    for (module, code) in [
        (&["user"][..], user),
        (&["user", "inner"], "use super::super::below::F;"),
        (&["above"], above),
        (&["below"], "use crate::above::A;"),
        (&[], "mod above;\npub(crate) mod user;\nmod below;"),
    ] {
        let module = module.iter().map(|part| (*part).to_owned()).collect();
        found.add(&module, code);
    }
    let upward = found.upward();
    let expected = [
        "above uses user::inner",
        "user uses below",
        "user::inner uses below",
    ];
    assert!(upward.iter().eq(expected), "{upward:?}");
}
