"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;

  // ── Journeys ──────────────────────────────────────────────────────────────────────────────────────────────────
  // Points are fractions of the map's width. The time of a point follows from the length before it and one speed.
  const journeys = data.journeys.map(([begin, end, flat]) => {
    const x = [], y = [], at = [0];
    let across = 0, down = 0;
    for (let k = 0; k < flat.length; k += 2) {
      across += flat[k];
      down += flat[k + 1];
      x.push(across / data.steps);
      y.push(down / data.steps * data.ratio);
      if (k) at.push(at[at.length - 1] + Math.hypot(x[k / 2] - x[k / 2 - 1], y[k / 2] - y[k / 2 - 1]));
    }
    const whole = at[at.length - 1];
    return { x, y, begin, end, at: at.map((part) => whole > 0 ? begin + (end - begin) * part / whole : begin) };
  });

  // The part of a journey that was ridden between two times.
  function ridden(one, from, to) {
    const points = [];
    const place = (time) => {
      let k = 1;
      while (k < one.at.length - 1 && one.at[k] < time) k += 1;
      if (one.at.length < 2) return [one.x[0], one.y[0]];
      const span = one.at[k] - one.at[k - 1], part = span > 0 ? Math.min(1, Math.max(0, (time - one.at[k - 1]) / span)) : 1;
      return [one.x[k - 1] + part * (one.x[k] - one.x[k - 1]), one.y[k - 1] + part * (one.y[k] - one.y[k - 1])];
    };
    points.push(place(Math.max(from, one.begin)));
    one.at.forEach((time, k) => { if (time > from && time < to) points.push([one.x[k], one.y[k]]); });
    points.push(place(to));
    return points;
  }

  // ── Time ──────────────────────────────────────────────────────────────────────────────────────────────────────
  // A journey that ends after midnight is also under way early on the slider's day.
  const slider = byId("time"), day = 86400;
  const moments = (time) => data.clock ? [time, time + day] : [time];
  const underWay = (time) => journeys.flatMap((one) => moments(time).filter((now) => now >= one.begin && now <= one.end).map((now) => [one, now]));
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  const clock = (time) => data.clock ? `${two(time / 3600)}:${two(time / 60 % 60)}` : `after ${Math.floor(time / 60)} min`;
  let now = 0;

  function say() {
    const count = underWay(now).length, text = `${clock(now)}, ${count.toLocaleString("en")} under way`;
    byId("now").textContent = text;
    slider.setAttribute("aria-valuetext", text);
  }

  // ── Painting ──────────────────────────────────────────────────────────────────────────────────────────────────
  function paint(pen, left, top, width, pixel) {
    const style = getComputedStyle(root), colour = (name) => style.getPropertyValue(name).trim();
    const height = width * data.ratio;
    pen.fillStyle = colour("--paper");
    pen.fillRect(left, top, width, height);
    pen.strokeStyle = colour("--line");
    pen.lineWidth = pixel;
    pen.strokeRect(left, top, width, height);
    pen.save();
    pen.beginPath();
    pen.rect(left, top, width, height);
    pen.clip();
    pen.translate(left, top);
    pen.scale(width, width);
    pen.lineJoin = pen.lineCap = "round";
    if (byId("all").checked) {
      pen.strokeStyle = colour("--way");
      pen.globalAlpha = Math.max(0.12, Math.min(0.5, 60 / journeys.length));
      pen.lineWidth = pixel / width;
      // Each journey has a stroke of its own, so that ways which many take are darker.
      for (const { x, y } of journeys) {
        pen.beginPath();
        x.forEach((across, k) => pen.lineTo(across, y[k]));
        pen.stroke();
      }
      pen.globalAlpha = 1;
    }
    pen.strokeStyle = pen.fillStyle = colour("--tail");
    pen.lineWidth = 2.2 * pixel / width;
    for (const [one, at] of underWay(now)) {
      const points = ridden(one, at - data.tail, at), [x, y] = points[points.length - 1];
      pen.globalAlpha = 0.75;
      pen.beginPath();
      for (const [a, b] of points) pen.lineTo(a, b);
      pen.stroke();
      pen.globalAlpha = 1;
      pen.beginPath();
      pen.arc(x, y, 3.2 * pixel / width, 0, 2 * Math.PI);
      pen.fill();
    }
    pen.restore();
  }

  // ── The map ───────────────────────────────────────────────────────────────────────────────────────────────────
  // Leaflet's plane: the longer side of the map has 1000 units, and y runs down as a negative latitude.
  const wide = 1000 * Math.min(1, 1 / data.ratio), tall = wide * data.ratio;
  const bounds = L.latLngBounds(L.latLng(0, 0), L.latLng(-tall, wide));
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const container = byId("map");
  const map = L.map(container, {
    crs: L.CRS.Simple, zoomSnap: 0, keyboard: false, scrollWheelZoom: false, boxZoom: false, zoomControl: false, attributionControl: false,
    trackResize: false, zoomAnimation: false, inertia: !calm, fadeAnimation: false, maxBounds: bounds, maxBoundsViscosity: 1, minZoom: -20, maxZoom: 5,
  });
  const Picture = L.Renderer.extend({
    options: { padding: 0.1 },
    _initContainer() { this._container = document.createElement("canvas"); },
    _destroyContainer() { this._container.remove(); },
    _update() {
      L.Renderer.prototype._update.call(this);
      const canvas = this._container, { min } = this._bounds, size = this._bounds.getSize(), pixel = devicePixelRatio;
      L.DomUtil.setPosition(canvas, min);
      canvas.width = Math.round(size.x * pixel);
      canvas.height = Math.round(size.y * pixel);
      canvas.style.width = `${size.x}px`;
      canvas.style.height = `${size.y}px`;
      const corner = this._map.latLngToLayerPoint(bounds.getNorthWest()).subtract(min);
      paint(canvas.getContext("2d"), corner.x * pixel, corner.y * pixel, wide * this._map.getZoomScale(this._map.getZoom(), 0) * pixel, pixel);
    },
  });
  const picture = new Picture();
  const repaint = () => { if (map.hasLayer(picture)) picture._update(); };

  let whole = true;
  function showWhole() {
    map.fitBounds(bounds, { padding: [2, 2], animate: false });
    whole = true;
  }
  new ResizeObserver(() => {
    if (!container.clientWidth || !container.clientHeight) return;
    if (map._loaded) map.invalidateSize({ pan: false, animate: false });
    map.setMinZoom(-20);
    if (whole || !map._loaded) showWhole();
    map.setMinZoom(map.getBoundsZoom(bounds, false, L.point(4, 4)));
    if (!map.hasLayer(picture)) map.addLayer(picture);
    else picture._update();
  }).observe(container);
  map.on("dragstart zoomstart", () => { whole = false; });

  // ── Slider, buttons and keys ──────────────────────────────────────────────────────────────────────────────────
  function show(time) {
    now = time;
    slider.value = time;
    say();
    repaint();
  }
  slider.addEventListener("input", () => show(Number(slider.value)));
  byId("all").addEventListener("change", repaint);

  const most = Number(slider.max), forms = { Play: "M7 5l12 7-12 7z", Pause: "M7 5h4v14H7zM14 5h4v14h-4z" };
  let playing = null;
  function play(start) {
    cancelAnimationFrame(playing);
    playing = null;
    const name = start ? "Pause" : "Play", button = byId("play");
    button.setAttribute("aria-label", name);
    button.title = name;
    button.querySelector("path").setAttribute("d", forms[name]);
    if (!start) return;
    let before = null;
    // The whole slider takes 40 seconds.
    const tick = (stamp) => {
      const next = now + (before === null ? 0 : (stamp - before) / 40000 * most);
      before = stamp;
      show(next > most ? 0 : next);
      playing = requestAnimationFrame(tick);
    };
    playing = requestAnimationFrame(tick);
  }
  byId("play").addEventListener("click", () => play(playing === null));

  const zoomBy = (step) => map.setZoomAround(map.getSize().divideBy(2), map.getZoom() + step);
  const acts = { "+": () => zoomBy(1), "=": () => zoomBy(1), "-": () => zoomBy(-1), "_": () => zoomBy(-1), "0": showWhole };
  container.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  });
  container.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    map.setZoomAround(map.mouseEventToContainerPoint(event), map.getZoom() - Math.max(-240, Math.min(240, event.deltaY)) / 160, { animate: false });
  }, { passive: false });
  byId("zoom-in").addEventListener("click", () => zoomBy(1));
  byId("zoom-out").addEventListener("click", () => zoomBy(-1));
  byId("whole").addEventListener("click", showWhole);

  // ── Light and dark ────────────────────────────────────────────────────────────────────────────────────────────
  const night = matchMedia("(prefers-color-scheme: dark)");
  let chosen;
  function theme() {
    root.dataset.theme = chosen ?? (night.matches ? "dark" : "light");
    repaint();
  }
  night.addEventListener("change", theme);
  byId("theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    theme();
  });
  theme();
  show(data.first);
})();
