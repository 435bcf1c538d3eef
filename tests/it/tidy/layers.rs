//! Layers: a module uses only modules above it, in the order of the `mod` lines of their parent.
//!
//! A parent and what is below it are one layer: they may use each other.

use std::collections::{BTreeMap, BTreeSet};

use super::source::code_of;
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

/// Returns the paths of a `use` tree, and what follows it.
fn tree<'a>(prefix: &Module, mut text: &'a str, paths: &mut Vec<(Module, String)>) -> &'a str {
    let mut path = prefix.clone();
    loop {
        text = text.trim_start();
        if let Some(mut inside) = text.strip_prefix('{') {
            loop {
                inside = tree(&path, inside, paths).trim_start();
                match inside.strip_prefix(',') {
                    Some(more) if !more.trim_start().starts_with('}') => inside = more,
                    Some(more) => return more.trim_start().trim_start_matches('}'),
                    None => return inside.trim_start_matches('}'),
                }
            }
        }
        let end = text
            .find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*')
            .unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if name != "self" && !name.is_empty() {
            path.push(name.to_owned());
        }
        if let Some(rest) = rest.strip_prefix("::") {
            text = rest;
            continue;
        }
        let (alias, rest) = match rest.trim_start().strip_prefix("as ") {
            Some(renamed) => {
                let renamed = renamed.trim_start();
                let end = renamed
                    .find(|c: char| !c.is_alphanumeric() && c != '_')
                    .unwrap_or(renamed.len());
                renamed.split_at(end)
            }
            None => (path.last().map_or("", String::as_str), rest),
        };
        paths.push((path.clone(), alias.to_owned()));
        return rest;
    }
}

/// Returns the path as seen from the root, or none if it leads out of the crate.
fn absolute(module: &Module, path: &[String]) -> Option<Module> {
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
        let below = root().join(&source);
        for path in files(&source, &["rs"]) {
            let relative = path.strip_prefix(&below).expect("below the sources");
            let mut module: Module = relative
                .with_extension("")
                .iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            // Tests may use every module.
            if module
                .iter()
                .any(|part| part == "tests" || part == "proptests")
            {
                continue;
            }
            if module == ["lib"] {
                module.clear();
            }
            let text = read(&path);
            let code = code_of(&text);
            let code = code
                .split("#[cfg(test)]\nmod tests")
                .next()
                .unwrap_or_default();
            found.add(&module, code);
        }
        found
    }

    fn add(&mut self, module: &Module, code: &str) {
        for line in code.lines() {
            let line = line.split_once(") ").map_or(line, |(head, line)| {
                if head.starts_with("pub(") { line } else { head }
            });
            let line = line.strip_prefix("pub ").unwrap_or(line);
            if let Some(name) = line.strip_prefix("mod ")
                && let Some(name) = name.strip_suffix(';')
            {
                let children = self.children.entry(module.clone()).or_default();
                children.push(name.to_owned());
            }
        }
        for (place, _) in code.match_indices("use ") {
            let before = code[..place].rsplit('\n').next().unwrap_or_default();
            if before.starts_with("pub") {
                let mut paths = Vec::new();
                tree(&Module::new(), &code[place + 4..], &mut paths);
                for (path, name) in paths {
                    let path = absolute(module, &path)
                        .unwrap_or_else(|| [module.as_slice(), &path].concat());
                    let exports = self.exports.entry(module.clone()).or_default();
                    exports.insert(name, path);
                }
            }
        }
        for start in ["crate::", "super::"] {
            for (place, _) in code.match_indices(start) {
                let before = &code[..place];
                if before.ends_with("::") || before.ends_with(|c: char| c.is_alphanumeric()) {
                    continue;
                }
                let mut paths = Vec::new();
                tree(&Module::new(), &code[place..], &mut paths);
                let paths = paths.iter().filter_map(|(path, _)| absolute(module, path));
                self.uses.entry(module.clone()).or_default().extend(paths);
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
        assert!(found.uses.len() > 5, "{name} has modules");
        offences.extend(found.upward());
    }
    assert_none(&offences);
}

#[test]
fn use_trees_are_read() {
    let mut paths = Vec::new();
    let rest = tree(
        &Module::new(),
        "crate::a::{self, b::{C, D as E}, f};",
        &mut paths,
    );
    let paths: Vec<String> = paths
        .iter()
        .map(|(path, name)| format!("{} {name}", path.join("::")))
        .collect();
    assert_eq!(rest, ";");
    assert_eq!(
        paths,
        [
            "crate::a a",
            "crate::a::b::C C",
            "crate::a::b::D E",
            "crate::a::f f"
        ]
    );
}
