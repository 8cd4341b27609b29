// Formulas are set a few at a time, those in view first: in between, the page answers its reader.
(() => {
  if (!window.MathJax) return;
  const places = ".math, .tex2jax_process, .mathjax_process, .output_area";
  const inView = (node) => {
    const box = node.getBoundingClientRect();
    return box.height > 0 && box.bottom > 0 && box.top < innerHeight;
  };
  const pause = () => new Promise((done) => setTimeout(done));
  // A long formula may break before a relation and after a wide space, as on paper.
  const relation = "mjx-mo[space='4']";
  const breaks = `mjx-math > ${relation}:not(${relation} + mjx-mo), mjx-math > mjx-mspace + *`;
  const breakable = (formula) => {
    if (formula.querySelectorAll("mjx-math mjx-c").length < 24) return;
    for (const part of formula.querySelectorAll(breaks)) part.before(document.createElement("wbr"));
  };
  // The mark after a formula, and the bracket before it, stay on its line.
  const glue = (formula) => {
    const link = formula.closest("a.ibrelu-symbol");
    const whole = link && link.textContent === formula.textContent ? link : formula;
    const [before, after] = [whole.previousSibling, whole.nextSibling];
    const head = before?.nodeType === Node.TEXT_NODE ? before.data.match(/[(“[]+$/)?.[0] : "";
    const tail = after?.nodeType === Node.TEXT_NODE ? after.data.match(/^[,.;:!?)”’\]]+/)?.[0] : "";
    if (!head && !tail) return;
    const line = document.createElement("span");
    line.className = "ibrelu-glue";
    whole.before(line);
    if (head) before.data = before.data.slice(0, -head.length);
    if (tail) after.data = after.data.slice(tail.length);
    line.append(head || "", whole, tail || "");
  };
  MathJax.startup = {
    pageReady: async () => {
      const first = [];
      const later = [];
      for (const node of document.querySelectorAll(places)) (inView(node) ? first : later).push(node);
      for (const queue of [first, later])
        while (queue.length) {
          const some = queue.splice(0, 8);
          await MathJax.typesetPromise(some);
          some.forEach(breakable);
          some.filter((node) => node.matches("span.math")).forEach(glue);
          await pause();
        }
    },
  };
})();
