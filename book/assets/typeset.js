// Formulas are set a few at a time, those in view first: in between, the page answers its reader.
(() => {
  if (!window.MathJax) return;
  const places = ".math, .tex2jax_process, .mathjax_process, .output_area";
  const inView = (node) => {
    const box = node.getBoundingClientRect();
    return box.height > 0 && box.bottom > 0 && box.top < innerHeight;
  };
  const pause = () => new Promise((done) => setTimeout(done));
  MathJax.startup = {
    pageReady: async () => {
      const first = [];
      const later = [];
      for (const node of document.querySelectorAll(places)) (inView(node) ? first : later).push(node);
      for (const queue of [first, later])
        while (queue.length) {
          await MathJax.typesetPromise(queue.splice(0, 8));
          await pause();
        }
    },
  };
})();
