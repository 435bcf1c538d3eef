//! Sparklines: numbers as a line of bars.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_BARS: [char; 8] = ['.', ':', '-', '=', '+', '*', '%', '#'];

/// The characters that the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    /// Unicode block elements.
    Unicode,
    /// ASCII only.
    Ascii,
}

impl Charset {
    /// The charset of the locale: the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set.
    pub(crate) fn of_locale() -> Charset {
        let set = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        Charset::of(set.as_deref().unwrap_or_default())
    }

    fn of(locale: &str) -> Charset {
        let locale = locale.to_ascii_lowercase();
        match locale.contains("utf-8") || locale.contains("utf8") {
            true => Charset::Unicode,
            false => Charset::Ascii,
        }
    }
}

/// A bar per number, scaled to the largest number. Zero is a space.
pub(crate) fn sparkline(numbers: &[u64], charset: Charset) -> String {
    let bars = match charset {
        Charset::Unicode => BARS,
        Charset::Ascii => ASCII_BARS,
    };
    let max = numbers.iter().copied().max().unwrap_or_default();
    let bar = |number: u64| match number {
        0 => ' ',
        // Every number above zero gets a bar.
        _ => {
            let height = u128::from(number) * 8 / u128::from(max);
            bars[usize::try_from(height).unwrap_or(8).clamp(1, 8) - 1]
        }
    };
    numbers.iter().map(|number| bar(*number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_scaled_to_the_largest_number_and_small_numbers_are_visible() {
        assert_eq!(sparkline(&[0, 1, 50, 100], Charset::Unicode), " ▁▄█");
        assert_eq!(sparkline(&[0, 1, 50, 100], Charset::Ascii), " .=#");
        assert_eq!(sparkline(&[0, 0], Charset::Unicode), "  ");
        assert_eq!(sparkline(&[u64::MAX, 1], Charset::Ascii), "#.");
        assert_eq!(sparkline(&[], Charset::Ascii), "");
    }

    #[test]
    fn a_locale_without_utf_8_gets_ascii_bars() {
        for (locale, charset) in [
            ("de_DE.UTF-8", Charset::Unicode),
            ("C.utf8", Charset::Unicode),
            ("C", Charset::Ascii),
            ("", Charset::Ascii),
        ] {
            assert_eq!(Charset::of(locale), charset, "{locale}");
        }
    }
}
