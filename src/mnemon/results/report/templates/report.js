"use strict";
(() => {
  // Lines and letters take the colour of the page around them, so light and dark need no second drawing.
  const ink = "currentColor";
  const look = {
    background: null,
    axis: { labelColor: ink, titleColor: ink, gridColor: ink, gridOpacity: 0.13, domainColor: ink, domainOpacity: 0.5,
      tickColor: ink, tickOpacity: 0.5 },
    legend: { labelColor: ink, titleColor: ink },
    title: { color: ink },
    text: { fill: ink },
    rule: { stroke: ink },
  };
  const options = {
    renderer: "svg",
    config: look,
    actions: { export: true, source: false, compiled: false, editor: false },
  };
  const drawn = new Set();
  const draw = (place) => {
    if (drawn.has(place.id)) return Promise.resolve();
    drawn.add(place.id);
    const spec = JSON.parse(document.querySelector(`script[data-chart="${place.id}"]`).textContent);
    if (place.clientWidth < 480) spec.config.legend.columns = 1; // long labels would be cut off
    return vegaEmbed(place, spec, options).then(() => place.setAttribute("data-drawn", ""));
  };
  const places = Array.from(document.querySelectorAll(".chart"));
  const visible = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        visible.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "300px" });
  places.forEach((place) => visible.observe(place));
  // A link to a folded experiment unfolds it.
  const unfold = () => {
    const section = location.hash && document.getElementById(location.hash.slice(1));
    const details = section && section.querySelector("details");
    if (details) {
      details.open = true;
      section.scrollIntoView();
    }
  };
  addEventListener("hashchange", unfold);
  unfold();
  addEventListener("beforeprint", () => {
    document.querySelectorAll(".experiment > details").forEach((details) => { details.open = true; });
    places.forEach(draw);
  });
})();
