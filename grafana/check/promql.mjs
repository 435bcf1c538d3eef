// Parses PromQL with the grammar of Prometheus: the selectors of a query and their functions.

import { parser } from '@prometheus-io/lezer-promql';

// Values for the variables of Grafana, so that the query parses.
const STAND_INS = {
  __rate_interval: '1m',
  __range: '1h',
  __interval: '15s',
};
const REDUCTIONS = /^[a-z_]+$/;

export function parse(expr) {
  const text = expr.replace(/\$\{?(__\w+)\}?/g, (whole, name) => STAND_INS[name] ?? whole);
  const tree = parser.parse(text);
  let broken = null;
  tree.iterate({
    enter: (node) => {
      if (node.type.isError) {
        broken ??= node.from;
      }
    },
  });
  return { text, tree, broken };
}

// Each series selector: `{name, at, matchers: [{label, op, value}], functions: [outermost … innermost],
// range}`. `at` is its place, and `range` is the source text, before variables are replaced.
export function selectorsOf(expr) {
  const { text, tree } = parse(expr);
  const written = ranges(expr);
  const found = [];
  tree.iterate({
    enter: (node) => {
      if (node.name !== 'VectorSelector') {
        return;
      }
      const matrix = node.node.parent?.name === 'MatrixSelector' ? node.node.parent : null;
      found.push({
        name: part(text, node.node.getChild('Identifier')) ?? '',
        at: node.from,
        matchers: matchersOf(text, node.node),
        functions: functionsAround(text, node.node),
        range: matrix ? written.shift() : null,
      });
    },
  });
  return found;
}

// The labels of each aggregation and join, and the place of the series that must have them: those of the aggregation,
// or of the right side of the join.
export function groupingsOf(expr) {
  const { text, tree } = parse(expr);
  const found = [];
  tree.iterate({
    enter: (node) => {
      if (node.name !== 'GroupingLabels') {
        return;
      }
      const whole = node.node.parent.parent;
      const { from, to } = whole.name === 'BinaryExpr' ? whole.lastChild : whole;
      found.push({ labels: node.node.getChildren('LabelName').map((label) => part(text, label)), from, to });
    },
  });
  return found;
}

// The labels of aggregations and joins.
export function groupedBy(expr) {
  return new Set(groupingsOf(expr).flatMap(({ labels }) => labels));
}

// The ranges in brackets, in order. No string literal in our queries contains one.
function ranges(expr) {
  return [...expr.matchAll(/\[(\$\{?__\w+\}?|\d+[smhdwy])\]/g)].map(([, range]) => range);
}

function part(text, node) {
  return node ? text.slice(node.from, node.to) : null;
}

function matchersOf(text, selector) {
  const list = selector.getChild('LabelMatchers');
  return (list?.getChildren('UnquotedLabelMatcher') ?? []).map((matcher) => ({
    label: part(text, matcher.getChild('LabelName')),
    op: part(text, matcher.getChild('MatchOp')),
    value: JSON.parse(part(text, matcher.getChild('StringLiteral'))),
  }));
}

function functionsAround(text, node) {
  const names = [];
  for (let up = node.parent; up; up = up.parent) {
    const name = part(text, up.getChild('FunctionIdentifier') ?? up.getChild('AggregateOp'));
    if ((up.name === 'FunctionCall' || up.name === 'AggregateExpr') && name && REDUCTIONS.test(name)) {
      names.unshift(name);
    }
  }
  return names;
}
