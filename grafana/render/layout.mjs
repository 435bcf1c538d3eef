// Opens every collapsed row, as clicks on all of them would: the panels below move down.
export function opened(panels) {
  let down = 0;
  return panels.flatMap((panel) => {
    const hidden = panel.collapsed ? panel.panels : [];
    const moved = [panel, ...hidden].map((one) => ({ ...one, gridPos: { ...one.gridPos, y: one.gridPos.y + down } }));
    if (hidden.length > 0) {
      down += Math.max(...hidden.map(({ gridPos }) => gridPos.y + gridPos.h)) - panel.gridPos.y - panel.gridPos.h;
    }
    return moved;
  });
}
