// The colours: few, each with one meaning on all dashboards, told apart by the colour-blind
// (after Okabe and Ito), readable on dark and on light.

export const colour = {
  // Work that comes in or waits.
  work: '#4C8DD6',
  // Work that is done; letters that recovered.
  done: '#2BA58A',
  // What is put off: delays, retries, half-open breakers.
  later: '#B89BD9',
  // What runs now.
  running: '#6CB8E6',
  // Worth a look.
  warning: '#E5A11A',
  // Deaths, and what needs somebody now.
  dead: '#DB5E1C',
  // Letters on their way back.
  back: '#C978A9',
  // What is only there to compare with: limits, thresholds, the rest.
  quiet: '#8E949E',
};

// A healthy number has no colour: it is written as text is.
export const plain = 'text';

// Of series that have no meaning of their own, such as queues: the first of them that is free.
export const series = [
  colour.work,
  colour.done,
  colour.later,
  colour.warning,
  colour.back,
  colour.running,
  colour.quiet,
];
