//! The deployment of the exporter: the unit, the container, the manifests, the role.

use redrive_tests::prelude::*;
use saphyr::{LoadableYamlNode as _, Yaml};

use super::printed;

/// Returns a file of the deployment.
fn read(name: &str) -> String {
    committed(&format!("crates/redrive-exporter/deploy/{name}"))
}

/// Checks that the program accepts these arguments: it fails only to connect.
#[track_caller]
fn takes(arguments: &[&str]) {
    let (code, said) = printed(&[arguments, &["--check"]].concat());
    assert_ne!(code, Some(2), "{arguments:?}: {said}");
}

/// Returns the variables that the help of the program lists.
fn help() -> String {
    printed(&["--help"]).1
}

#[test]
fn the_manifests_are_valid_yaml_and_match_the_program() {
    let text = read("kubernetes.yaml");
    let documents = Yaml::load_from_str(&text).unwrap();
    let container = &documents[0]["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_vec().unwrap().iter();
    let arguments: Vec<&str> = arguments.map(|it| it.as_str().unwrap()).collect();
    takes(&arguments);
    let probed = |probe: &str| container[probe]["httpGet"]["path"].as_str();
    assert_eq!(probed("livenessProbe"), Some("/-/healthy"));
    assert_eq!(probed("readinessProbe"), Some("/-/ready"));
    let image = format!("redrive-exporter:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(container["image"].as_str(), Some(&*image));
    // The file of the argument is in the folder that the Secret is mounted at.
    let folder = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    assert!(arguments.iter().any(|argument| argument.contains(folder)));
    let port = container["ports"][0]["containerPort"].as_integer();
    assert_eq!(documents[1]["spec"]["ports"][0]["port"].as_integer(), port);
    let endpoint = &documents[2]["spec"]["endpoints"][0];
    assert_eq!(endpoint["path"].as_str(), Some("/metrics"));
}

#[test]
fn the_unit_matches_the_program() {
    let unit = read("redrive-exporter.service");
    let line = |name: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name}"))
    };
    let words = line("ExecStart=").split(' ');
    takes(&words.skip(1).collect::<Vec<_>>());
    let help = help();
    let set = unit
        .lines()
        .filter_map(|line| line.strip_prefix("Environment="));
    for variable in set {
        has(&help, variable.split_once('=').unwrap().0);
    }
    assert_eq!(line("Restart="), "always");
}

#[test]
fn the_container_sets_only_variables_that_the_program_reads() {
    let text = read("Containerfile");
    let help = help();
    let words = text
        .split_whitespace()
        .filter_map(|word| word.split_once('='));
    let names = words
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("REDRIVE_EXPORTER_"));
    let names: Vec<&str> = names.inspect(|name| has(&help, name)).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    takes(&[]);
    assert!(text.contains(r#"CMD ["redrive-exporter", "--check"]"#));
    let user = text.lines().find_map(|line| line.strip_prefix("USER "));
    assert!(user.is_some_and(|user| !user.starts_with('0')), "{user:?}");
}
