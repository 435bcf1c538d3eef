//! Sparklines: numbers as a line of bars.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar per number, scaled to the largest number. Zero is a space.
pub(crate) fn sparkline(numbers: &[u64]) -> String {
    let max = numbers.iter().copied().max().unwrap_or_default();
    let bar = |number: u64| match number {
        0 => ' ',
        // Every number above zero gets a bar.
        _ => {
            let height = u128::from(number) * 8 / u128::from(max);
            BARS[usize::try_from(height).unwrap_or(8).clamp(1, 8) - 1]
        }
    };
    numbers.iter().map(|number| bar(*number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_scaled_to_the_largest_number_and_small_numbers_are_visible() {
        for (numbers, bars) in [
            (&[0, 1, 50, 100][..], " ▁▄█"),
            (&[0, 0], "  "),
            (&[u64::MAX, 1], "█▁"),
            (&[], ""),
        ] {
            assert_eq!(sparkline(numbers), bars);
        }
    }
}
