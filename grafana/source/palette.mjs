// The colours. Each has one meaning on all dashboards. They are safe for colour-blind readers (after
// Okabe and Ito) and readable on dark and light themes.

export const colour = {
  // Incoming or waiting work.
  work: '#4C8DD6',
  // Finished work and recovered letters.
  done: '#2BA58A',
  // Postponed work: delays, retries, half-open breakers.
  later: '#B89BD9',
  // Running work.
  running: '#6CB8E6',
  // Needs attention soon.
  warning: '#E5A11A',
  // Deaths, and values that need action now.
  dead: '#DB5E1C',
  // Letters being redriven.
  back: '#C978A9',
  // For comparison only: limits, thresholds, other series.
  quiet: '#8E949E',
};

// A healthy value has the colour of text.
export const plain = 'text';

// For series without a fixed meaning, such as queues: the first free one.
export const series = [
  colour.work,
  colour.done,
  colour.later,
  colour.warning,
  colour.back,
  colour.running,
  colour.quiet,
];
