//! Shortens a backtrace to its topmost frame in the application. Pure.

/// Shorter backtraces are shown whole.
const MIN_FRAMES: usize = 4;

/// The start of frames of languages and of widespread libraries.
const FOREIGN: &str = "std:: core:: alloc:: test:: backtrace:: redrive:: anyhow:: eyre:: color_eyre:: \
    tokio:: hyper:: reqwest:: postgres:: tokio_postgres:: serde rayon rust_ __rust rustc java. javax. jdk. \
    sun. jakarta. kotlin scala. org.springframework. org.apache. org.hibernate. io.netty. runtime. panic \
    node: _start";

/// Returns the text with its backtrace folded to one frame; `None`: it has no long backtrace.
pub(super) fn folded(text: &str) -> Option<Vec<String>> {
    let lines: Vec<&str> = text.lines().collect();
    let frames: Vec<(usize, String)> = lines
        .iter()
        .enumerate()
        .filter_map(|(number, line)| Some((number, frame(line)?)))
        .collect();
    let ((first, _), (last, _)) = (frames.first()?, frames.last()?);
    if frames.len() < MIN_FRAMES {
        return None;
    }
    let is_python = lines[*first].trim_start().starts_with("File \"");
    let is_own = |frame: &(usize, String)| !is_foreign(&frame.1);
    // The innermost call is the first frame, but the last one in Python.
    let shown = match is_python {
        true => frames.iter().rposition(is_own).unwrap_or(frames.len() - 1),
        false => frames.iter().position(is_own).unwrap_or(0),
    };
    let mut folded: Vec<String> = lines[..*first]
        .iter()
        .filter(|line| !is_title(line))
        .map(|line| (*line).to_owned())
        .collect();
    folded.push(format!(
        "at {} (frame {} of {}; --full)",
        frames[shown].1,
        shown + 1,
        frames.len()
    ));
    let is_source = |line: &&&str| is_place(line) || (is_python && line.starts_with("    "));
    let after = lines[last + 1..].iter().skip_while(is_source);
    folded.extend(after.map(|line| (*line).to_owned()));
    Some(folded)
}

/// The function of a frame: `9: lab::main`, `at com.acme.Order.pay(Order.java:17)`,
/// `File "order.py", line 3, in pay`.
fn frame(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(python) = line.strip_prefix("File \"") {
        let (file, rest) = python.split_once('"')?;
        let (_, function) = rest.rsplit_once(" in ")?;
        return Some(format!("{file} in {function}"));
    }
    if let Some(call) = line.strip_prefix("at ") {
        // A Rust backtrace has the source of the frame above on such a line.
        return (call.contains('(')).then(|| call.to_owned());
    }
    let (number, function) = line.split_once(": ")?;
    number.parse::<u32>().ok()?;
    // The hash of a mangled name is noise.
    let (name, hash) = function.rsplit_once("::").unwrap_or((function, ""));
    let is_hash = hash.len() == 17 && hash.starts_with('h');
    Some(if is_hash { name } else { function }.to_owned())
}

fn is_foreign(function: &str) -> bool {
    let name = function.trim_start_matches(['<', '&', '_']);
    let is_library = function.contains("site-packages") || function.contains("node_modules");
    let is_runtime = !name.contains(['.', ':', '/', '(']);
    is_library || is_runtime || FOREIGN.split(' ').any(|start| name.starts_with(start))
}

/// The line above a backtrace.
fn is_title(line: &str) -> bool {
    let line = line.trim();
    line == "stack backtrace:" || line == "Traceback (most recent call last):"
}

/// The source of the last frame.
fn is_place(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("at ") || line.starts_with("...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtrace_is_folded_to_the_frame_of_the_application() {
        let rust = "no answer\nstack backtrace:\n   0: std::panicking::begin_panic\n   1: core::panicking::panic_fmt\n\
                    \x20            at /rustc/1/core/src/panicking.rs:5\n   2: lab::pay::h0123456789abcdef\n\
                    \x20            at ./src/main.rs:9:5\n   3: lab::main\n   4: main\n             at ./src/main.rs:3:1\nnote: x";
        let java = "java.lang.IllegalStateException: no\n\tat java.util.Objects.requireNonNull(Objects.java:1)\n\
                    \tat com.acme.Order.pay(Order.java:17)\n\tat com.acme.Main.main(Main.java:3)\n\
                    \tat java.lang.Thread.run(Thread.java:1)\n\t... 3 more";
        let python = "Traceback (most recent call last):\n  File \"/srv/a.py\", line 1, in main\n    pay()\n\
                      \x20 File \"/srv/pay.py\", line 3, in pay\n    post()\n  File \"/x/site-packages/r.py\", line 2, in post\n\
                      \x20   send()\n  File \"/x/site-packages/s.py\", line 9, in send\n    raise E\nE: no";
        for (text, lines) in [
            (
                rust,
                &["no answer", "at lab::pay (frame 3 of 5; --full)", "note: x"][..],
            ),
            (
                java,
                &[
                    "java.lang.IllegalStateException: no",
                    "at com.acme.Order.pay(Order.java:17) (frame 2 of 4; --full)",
                ],
            ),
            (
                python,
                &["at /srv/pay.py in pay (frame 2 of 4; --full)", "E: no"],
            ),
        ] {
            assert_eq!(folded(text).expect(text), lines);
        }
    }

    #[test]
    fn other_texts_stay_whole() {
        for text in [
            "",
            "a message",
            "12: not a backtrace\nat noon",
            "0: a::b\n1: c::d\n2: e::f",
        ] {
            assert_eq!(folded(text), None, "{text}");
        }
    }

    #[test]
    fn a_backtrace_of_libraries_only_shows_its_first_frame() {
        let text = "0: std::a\n1: std::b\n2: core::c\n3: main";
        assert_eq!(
            folded(text).expect(text),
            ["at std::a (frame 1 of 4; --full)"]
        );
    }
}
