// What is wrong with the page that is shown, as a list of sentences; an empty list is a sound page.
() => {
  const faults = [];
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) faults.push("the page scrolls sideways");
  for (const box of document.querySelectorAll("body *")) {
    const style = getComputedStyle(box);
    if (/auto|scroll/.test(style.overflowX) && box.scrollWidth > box.clientWidth)
      faults.push(`${box.tagName} scrolls sideways`);
  }

  const once = (compute) => {
    const known = new Map();
    return (element) => {
      if (!known.has(element)) known.set(element, compute(element));
      return known.get(element);
    };
  };
  const isClipped = once((element) => element !== null &&
    (getComputedStyle(element).clipPath !== "none" || isClipped(element.parentElement)));
  const isHidden = (element) => isClipped(element) || !element.checkVisibility();
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || isHidden(parent)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const isDrawn = parent.namespaceURI.endsWith("/svg");
    const boxes = isDrawn ? [parent.getBoundingClientRect()] : [...range.getClientRects()];
    texts.push({ parent, isDrawn, text: node.data.trim(),
                 boxes: boxes.filter((box) => box.width > 0.5) });
  }

  const boxes = texts.flatMap((it, from) => it.boxes.map((box) => ({ box, from })));
  boxes.sort((one, other) => one.box.top - other.box.top);
  boxes.forEach(({ box, from }, place) => {
    if (box.left < -0.5 || box.right > wide + 0.5)
      faults.push(`outside of the page: ${texts[from].text.slice(0, 40)}`);
    for (const { box: next, from: other } of boxes.slice(place + 1)) {
      if (next.top >= box.bottom) break;
      const down = Math.min(box.bottom, next.bottom) - next.top;
      const across = Math.min(box.right, next.right) - Math.max(box.left, next.left);
      if (from !== other && across > 1 && down > 0.25 * Math.min(box.height, next.height))
        faults.push(`overlap: ${texts[from].text.slice(0, 40)} | ${texts[other].text.slice(0, 40)}`);
    }
  });

  for (const { text, boxes: own } of texts) {
    const lines = new Set(own.map((box) => Math.round(box.top))).size;
    const isTorn = lines > text.split(/\s+/).length && text.length < 8 * lines;
    if (lines > 1 && (isTorn || text.length < 3 * lines))
      faults.push(`${lines} lines for ${text.slice(0, 40)}`);
  }

  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (colour) => {
    const [red, green, blue] = numbers(colour).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = once((element) => {
    if (element === null) return "rgb(255, 255, 255)";
    const colour = getComputedStyle(element).backgroundColor, alpha = numbers(colour)[3] ?? 1;
    if (alpha !== 0 && alpha !== 1) faults.push("a background that one can see through");
    return alpha === 1 ? colour : behind(element.parentElement);
  });
  const require = (colour, element, text) => {
    const pair = [light(colour), light(behind(element))].sort((one, other) => one - other);
    const contrast = (pair[1] + 0.05) / (pair[0] + 0.05);
    if (contrast < 4.5) faults.push(`contrast ${contrast.toFixed(2)}: ${text.slice(0, 40)}`);
  };
  for (const { parent, isDrawn, text } of texts)
    require(getComputedStyle(parent)[isDrawn ? "fill" : "color"], parent, text);
  for (const cell of document.querySelectorAll("td")) {
    const before = getComputedStyle(cell, "::before");
    if (before.content !== "none") require(before.color, cell, before.content);
  }
  return [...new Set(faults)];
}
