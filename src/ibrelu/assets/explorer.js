(() => {
  // Frame 0 is the picture itself; every other frame is what differs from it.
  const apply = (base, edits) => {
    const parts = base.slice();
    for (let i = edits.length - 3; i >= 0; i -= 3) parts.splice(edits[i], edits[i + 1], edits[i + 2]);
    return parts.join("");
  };
  // Uint8Array.from with a function is five to ten times slower than this loop.
  const bytes = (base64) => {
    const text = atob(base64);
    const codes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) codes[i] = text.charCodeAt(i);
    return codes;
  };
  const decode = (uri) => new TextDecoder().decode(bytes(uri.split(",")[1]));
  const unpack = (base64) =>
    new Response(new Blob([bytes(base64)]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  const make = (tag, parent, properties) => parent.appendChild(Object.assign(document.createElement(tag), properties));
  const plain = (text) => text.replaceAll(",", "");
  const fragment = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");

  const start = async (root) => {
    root.dataset.ready = "no";
    const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
    const picture = root.querySelector("img");
    const caption = root.querySelector("figcaption");
    const panel = root.querySelector(".ibrelu-controls");
    const first = picture.src;
    const base = decode(first).split(/(?=<)/);
    const frames = await unpack(data.frames);
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const key = (choice) => `${root.id}.${choice.name}`;

    const frame = () => data.choices.reduce((index, c) => index * c.texts.length + +c.input.value, 0);
    const draw = (index) => {
      picture.src = index
        ? "data:image/svg+xml;charset=utf-8," + encodeURIComponent(apply(base, frames[index - 1]))
        : first;
    };
    const show = () => {
      for (const c of data.choices) {
        const text = c.texts[c.input.value];
        c.output.textContent = text;
        c.input.setAttribute("aria-valuetext", `${c.label} ${text}`);
      }
      const index = frame();
      root.dataset.frame = index;
      draw(index);
      if (caption.textContent !== data.captions[index]) caption.textContent = data.captions[index];
    };
    const remember = () => {
      const state = fragment();
      for (const c of data.choices) state.set(key(c), plain(c.texts[c.input.value]));
      // A page that may not rewrite its own address still works; only the link is lost.
      try { history.replaceState(history.state, "", "#" + state); } catch { /* see above */ }
    };
    const recall = () => {
      const state = fragment();
      let found = false;
      for (const c of data.choices) {
        const at = c.texts.map(plain).indexOf(state.get(key(c)));
        if (at < 0) continue;
        c.input.value = at;
        found = true;
      }
      if (found) show();
      return found;
    };
    // The longest value and the longest caption keep their room: nothing under the picture moves.
    // All are tried at once, so that the page is laid out once for them.
    const longest = (texts) => texts.reduce((a, b) => (b.length > a.length ? b : a));
    const settle = () => {
      const places = data.choices.map((c) => [c.output, longest(c.texts), "minWidth", "offsetWidth"]);
      places.push([caption, longest(data.captions), "minHeight", "offsetHeight"]);
      const shown = places.map(([element]) => element.textContent);
      for (const [element, text, side] of places) {
        element.style[side] = "";
        element.textContent = text;
      }
      const rooms = places.map(([element, , , size]) => element[size]);
      places.forEach(([element, , side], i) => {
        if (rooms[i]) element.style[side] = `${rooms[i]}px`;
        element.textContent = shown[i];
      });
    };
    const player = (row, choice) => {
      let timer = 0;
      const last = choice.texts.length - 1;
      const word = calm ? "Next" : "Play";
      const button = make("button", row, { type: "button", textContent: word });
      button.setAttribute("aria-label", `${word}: ${choice.label}`);
      const stop = () => {
        if (!timer) return;
        timer = clearInterval(timer) || 0;
        button.textContent = word;
        button.setAttribute("aria-label", `${word}: ${choice.label}`);
        remember();
      };
      const advance = () => {
        choice.input.value = +choice.input.value < last ? +choice.input.value + 1 : 0;
        show();
      };
      button.onclick = () => {
        if (timer) return stop();
        advance();
        if (calm) return remember();
        button.textContent = "Pause";
        button.setAttribute("aria-label", `Pause: ${choice.label}`);
        timer = setInterval(() => (+choice.input.value < last ? advance() : stop()), 500);
      };
      choice.input.addEventListener("input", stop);
    };

    for (const c of data.choices) {
      const row = make("div", panel, { className: "ibrelu-row" });
      const label = make("label", row);
      make("span", label, { textContent: c.label });
      c.input = make("input", label, { type: "range", min: 0, max: c.texts.length - 1, step: 1, value: 0 });
      c.output = make("output", row);
      c.output.setAttribute("aria-hidden", "true");
      c.input.oninput = show;
      c.input.onchange = remember;
      if (c.name === data.play) player(row, c);
    }
    settle();
    addEventListener("resize", settle);
    root.dataset.ready = "yes";
    show();
    if (recall()) root.scrollIntoView({ block: "center" });
    addEventListener("hashchange", recall);
    addEventListener("beforeprint", () => { draw(0); caption.textContent = data.captions[0]; });
    addEventListener("afterprint", show);
  };

  document.querySelectorAll("figure.ibrelu-explorer:not([data-ready])").forEach(start);
})();
