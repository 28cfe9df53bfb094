"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { grid, squares, shapes, labels } = data;
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;

  // ── Squares ───────────────────────────────────────────────────────────────────────────────────────────────────
  // Positions are in cells of the grid: x to the right and y down. A square ends where the grid ends.
  const depth = Math.ceil(Math.log2(Math.max(grid.rows, grid.cols)));
  const all = squares.level.map((level, k) => {
    const size = 2 ** (depth - level), top = squares.row[k] * size, left = squares.col[k] * size;
    return {
      level, kind: squares.kind[k], place: data.places[squares.place[k]],
      people: squares.people[k], low: squares.low[k], high: squares.high[k], density: squares.density[k],
      top, left, bottom: Math.min(top + size, grid.rows), right: Math.min(left + size, grid.cols),
    };
  });
  const byPlace = new Map(all.map((square) => [[square.level, square.top, square.left].join(), square]));
  const levels = [...new Set(squares.level)].sort((a, b) => b - a);
  // Densest first, then the unknown squares, then the white ones: the order of Page Down.
  const importance = (square) => [square.kind >= 0 ? 0 : square.kind === -2 ? 1 : 2, -square.density];
  const ranked = [...all].sort((a, b) => importance(a)[0] - importance(b)[0] || importance(a)[1] - importance(b)[1]);
  ranked.forEach((square, k) => { square.rank = k; });

  function squareAt(x, y) {
    if (!(x >= 0 && y >= 0 && x < grid.cols && y < grid.rows)) return null;
    for (const level of levels) {
      const size = 2 ** (depth - level);
      const found = byPlace.get([level, Math.floor(y / size) * size, Math.floor(x / size) * size].join());
      if (found) return found;
    }
    return null;
  }

  // ── Words ─────────────────────────────────────────────────────────────────────────────────────────────────────
  const number = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 20 });
  const people = (value) => value < 10 ? String(Math.round(10 * value) / 10) : number(Math.round(value));
  const same = (low, high, text) => text(low) === text(high) ? text(low) : `${text(low)} to ${text(high)}`;

  const geographic = grid.projection !== "plane", mercator = grid.projection === "web-mercator";
  const forward = (y) => mercator ? Math.log(Math.tan(Math.PI / 4 + y * Math.PI / 360)) : y;
  const backward = (y) => mercator ? Math.atan(Math.exp(y)) * 360 / Math.PI - 90 : y;
  const [first, last] = geographic ? [forward(grid.y[1]), forward(grid.y[0])] : grid.y;
  const xAt = (across) => grid.x[0] + across / grid.cols * (grid.x[1] - grid.x[0]);
  const yAt = (down) => backward(first + down / grid.rows * (last - first));

  function where(square) {
    const x = xAt((square.left + square.right) / 2), y = yAt((square.top + square.bottom) / 2);
    const size = Math.min(xAt(square.right) - xAt(square.left), Math.abs(yAt(square.bottom) - yAt(square.top)));
    const places = Math.min(12, Math.max(0, Math.ceil(-Math.log10(size)) + 1));
    const degrees = (value, names) => `${Math.abs(value).toFixed(places)}° ${names[value < 0 ? 1 : 0]}`;
    return geographic ? `${degrees(y, "NS")}, ${degrees(x, "EW")}` : `x ${x.toFixed(places)}, y ${y.toFixed(places)}`;
  }

  // The lines of text about a square; the first is the most important.
  function words(square) {
    const lines = [], size = `Square of ${data.sizes[square.level]}`;
    const inside = data.howSure && `${same(square.low, square.high, people)} ${data.counted}`;
    if (!data.howSure) {
      lines.push(square.kind < 0 ? `Under ${number(data.classes[0])} ${data.unit}` : `About ${number(square.density)} ${data.unit}`);
      lines.push(`${size}: about ${people(square.people)} ${data.counted}; ${data.noErrorBars}`);
    } else if (square.kind >= 0) {
      const scale = square.people > 0 ? square.density / square.people : 0;
      lines.push(`About ${number(square.density)} ${data.unit}`);
      lines.push(`${same(square.low * scale, square.high * scale, number)}, ${data.howSure}`);
      lines.push(`${size}: about ${people(square.people)} ${data.counted} (${same(square.low, square.high, people)})`);
    } else if (square.kind === -2) {
      lines.push("Unknown: may be few or many", `${size}: ${inside}, ${data.howSure}`);
    } else {
      lines.push(`Under ${number(data.classes[0])} ${data.unit}`, "Nobody, or thinly spread", `${size}: ${inside}, ${data.howSure}`);
    }
    lines.push(square.place ? `${square.place}; ${where(square)}` : where(square));
    return lines;
  }

  // ── Painting ──────────────────────────────────────────────────────────────────────────────────────────────────
  // Paths are in units of the map's width, so that lines have one width in both directions.
  const paths = shapes.map(([kind, closed, parts]) => {
    const path = new Path2D();
    for (const part of parts) {
      let x = 0, y = 0;
      for (let k = 0; k < part.length; k += 2) {
        x += part[k];
        y += part[k + 1];
        const [u, v] = [x / data.steps, y / data.steps * data.ratio];
        if (k) path.lineTo(u, v); else path.moveTo(u, v);
      }
      if (closed) path.closePath();
    }
    return { kind, closed, path };
  });
  // Below everything lies water around land, or a tint outside of districts; otherwise paper, which is land.
  const filled = { land: "land", water: "water", ...(data.ground === "outside" && { border: "land" }) };
  const strokes = { land: ["border", 0.9], water: ["river", 1.2], border: ["border", 0.9], street: ["street", 0.9] };

  function hatch(pen, colours, pixel) {
    const tile = document.createElement("canvas"), side = Math.round(7 * pixel);
    tile.width = tile.height = side;
    const inner = tile.getContext("2d");
    inner.fillStyle = colours.unknown;
    inner.fillRect(0, 0, side, side);
    inner.strokeStyle = colours.hatch;
    inner.lineWidth = pixel;
    inner.beginPath();
    for (const shift of [-side, 0, side]) { inner.moveTo(shift - 1, side + 1); inner.lineTo(shift + side + 1, -1); }
    inner.stroke();
    return pen.createPattern(tile, "repeat");
  }

  // Fine level lines mark water, so that it is known without its colour.
  function water(pen, colours, pixel) {
    const tile = document.createElement("canvas"), side = Math.round(8 * pixel);
    tile.width = 1;
    tile.height = side;
    const inner = tile.getContext("2d");
    inner.fillStyle = colours.water;
    inner.fillRect(0, 0, 1, side);
    inner.fillStyle = colours.wave;
    inner.fillRect(0, 0, 1, Math.max(1, Math.round(0.7 * pixel)));
    return pen.createPattern(tile, "repeat");
  }

  // Paint the map onto a canvas: its left top corner at (left, top), `width` wide, with `pixel` device pixels for one
  // of the page. All lengths are in device pixels.
  function paint(pen, left, top, width, pixel, colours) {
    const height = width * data.ratio, canvas = pen.canvas;
    const fills = [...colours.ramp, hatch(pen, colours, pixel)];
    pen.save();
    pen.beginPath();
    pen.rect(left, top, width, height);
    pen.clip();
    const grounds = { ...colours, water: water(pen, colours, pixel) };
    // A pattern is in device pixels only if it is scaled back.
    grounds.water.setTransform(new DOMMatrix([1 / width, 0, 0, 1 / width, 0, 0]));
    pen.translate(left, top);
    pen.scale(width, width);
    pen.fillStyle = grounds[data.ground];
    pen.fillRect(0, 0, 1, data.ratio);
    for (const kind of ["land", "water", "border"]) for (const one of paths) if (one.kind === kind && one.closed && filled[kind]) {
      pen.fillStyle = grounds[filled[kind]];
      pen.fill(one.path, "evenodd");
    }
    pen.setTransform(1, 0, 0, 1, 0, 0);
    if (agreed) { paintTiles(pen, left, top, width, pixel); pen.globalAlpha = 0.7; }
    for (const square of all) {
      if (square.kind === -1) continue;
      // Borders lie on whole pixels; only squares that are large enough have a seam.
      const x = Math.round(left + square.left / grid.cols * width), y = Math.round(top + square.top / grid.rows * height);
      let wide = Math.round(left + square.right / grid.cols * width) - x, high = Math.round(top + square.bottom / grid.rows * height) - y;
      if (x > canvas.width || y > canvas.height || x + wide < 0 || y + high < 0) continue;
      if (Math.min(wide, high) >= 6 * pixel) { wide -= Math.round(pixel); high -= Math.round(pixel); }
      pen.fillStyle = fills[square.kind < 0 ? fills.length - 1 : square.kind];
      pen.fillRect(x, y, Math.max(1, wide), Math.max(1, high));
    }
    pen.globalAlpha = 1;
    pen.translate(left, top);
    pen.scale(width, width);
    pen.lineJoin = "round";
    for (const one of paths) {
      const [colour, thick] = strokes[one.kind];
      pen.strokeStyle = colours[colour];
      pen.lineWidth = thick * pixel / width;
      pen.stroke(one.path);
    }
    pen.setTransform(1, 0, 0, 1, 0, 0);
    write(pen, left, top, width, height, pixel, colours);
    pen.restore();
    pen.strokeStyle = colours.border;
    pen.lineWidth = pixel;
    pen.strokeRect(Math.round(left) - pixel / 2, Math.round(top) - pixel / 2, Math.round(width) + pixel, Math.round(height) + pixel);
  }

  // ── Streets, if the reader agrees ─────────────────────────────────────────────────────────────────────────────
  let agreed = false, waiting = false;
  const tiles = new Map();
  function tile(address) {
    if (!tiles.has(address)) {
      const image = new Image();
      image.referrerPolicy = "no-referrer";
      image.addEventListener("load", () => {
        if (waiting) return;
        waiting = true;  // several tiles that arrive together are painted together
        requestAnimationFrame(() => { waiting = false; picture._update(); });
      });
      image.src = address;
      tiles.set(address, image);
    }
    return tiles.get(address);
  }
  // Tiles are squares of the web Mercator projection. Each is stretched between its exact corners on the map.
  function paintTiles(pen, left, top, width, pixel) {
    const height = width * data.ratio, span = grid.x[1] - grid.x[0];
    const count = 2 ** Math.max(0, Math.min(19, Math.round(Math.log2(width / span * 360 / 256 / pixel))));
    const limit = (x) => Math.max(0, Math.min(count - 1, Math.floor(x)));
    const column = (x) => (xAt((x - left) / width * grid.cols) + 180) / 360 * count;
    const row = (y) => (1 - Math.asinh(Math.tan(yAt((y - top) / height * grid.rows) * Math.PI / 180)) / Math.PI) / 2 * count;
    const across = (x) => left + (x / count * 360 - 180 - grid.x[0]) / span * width;
    const down = (y) => top + (forward(Math.atan(Math.sinh(Math.PI * (1 - 2 * y / count))) * 180 / Math.PI) - first) / (last - first) * height;
    const right = Math.min(pen.canvas.width, left + width) - 1, bottom = Math.min(pen.canvas.height, top + height) - 1;
    for (let y = limit(row(Math.max(0, top))); y <= limit(row(bottom)); y += 1) for (let x = limit(column(Math.max(0, left))); x <= limit(column(right)); x += 1) {
      const image = tile(data.tiles.replace("{z}", Math.log2(count)).replace("{x}", x).replace("{y}", y));
      if (image.complete && image.naturalWidth) pen.drawImage(image, across(x), down(y), across(x + 1) - across(x), down(y + 1) - down(y));
    }
  }
  document.querySelector("#tiles button")?.addEventListener("click", () => {
    agreed = true;
    document.querySelector("#tiles").textContent = `Streets come from ${new URL(data.tiles).host}.`;
    picture._update();
  });

  // Write names, the most important first; a name that would touch another is left out.
  function write(pen, left, top, width, height, pixel, colours) {
    const taken = [], family = getComputedStyle(document.body).fontFamily;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    pen.lineWidth = 3 * pixel;
    pen.strokeStyle = colours.paper;
    pen.fillStyle = colours.name;
    const say = (text, x, y) => {
      const half = pen.measureText(text).width / 2 + 3 * pixel, tall = 9 * pixel;
      const off = x - half < left || x + half > left + width || y - tall < top || y + tall > top + height;
      if (off || taken.some(([a, b, c]) => Math.abs(x - a) < half + b && Math.abs(y - c) < 2 * tall)) return false;
      taken.push([x, half, y]);
      pen.strokeText(text, x, y);
      pen.fillText(text, x, y);
      return true;
    };
    if (ranked[0].kind >= 0) {
      const [square] = ranked, x = left + (square.left + square.right) / 2 / grid.cols * width, y = top + (square.top + square.bottom) / 2 / grid.rows * height;
      const half = Math.max(3 * pixel, (square.right - square.left) / 2 / grid.cols * width + pixel);
      const tall = Math.max(3 * pixel, (square.bottom - square.top) / 2 / grid.rows * height + pixel);
      pen.font = `600 ${12 * pixel}px ${family}`;
      const away = pen.measureText("densest").width / 2 + half + 20 * pixel;
      for (const side of [1, -1]) if (say("densest", x + side * away, y - tall - 18 * pixel)) {
        pen.save();
        pen.beginPath();
        pen.rect(x - half, y - tall, 2 * half, 2 * tall);
        pen.moveTo(x + side * half, y - tall);
        pen.lineTo(x + side * (half + 14 * pixel), y - tall - 14 * pixel);
        // The line has a border of the colour of paper, so that it shows on dark squares too.
        for (const [colour, thick] of [[colours.paper, 4], [colours.name, 1.5]]) {
          pen.strokeStyle = colour;
          pen.lineWidth = thick * pixel;
          pen.stroke();
        }
        pen.restore();
        break;
      }
    }
    pen.font = `italic ${12.5 * pixel}px ${family}`;
    for (const [name, x, y] of labels) say(name, left + x * width, top + y * height);
  }

  // ── The map ───────────────────────────────────────────────────────────────────────────────────────────────────
  // Leaflet's plane: the longer side of the map has 1000 units, and y runs down as a negative latitude.
  const wide = 1000 * Math.min(1, 1 / data.ratio), tall = wide * data.ratio;
  const toLatLng = (across, down) => L.latLng(-down / grid.rows * tall, across / grid.cols * wide);
  const bounds = L.latLngBounds(toLatLng(0, 0), toLatLng(grid.cols, grid.rows));
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const container = byId("map");
  const map = L.map(container, {
    crs: L.CRS.Simple, zoomSnap: 0, keyboard: false, scrollWheelZoom: false, boxZoom: false, zoomControl: false, attributionControl: false,
    trackResize: false, zoomAnimation: !calm, inertia: !calm, fadeAnimation: false, maxBounds: bounds, maxBoundsViscosity: 1, minZoom: -20,
    // The smallest square can be made 64 pixels wide.
    maxZoom: Math.max(3, Math.log2(64 * grid.cols / wide / 2 ** (depth - levels[0]))),
  });
  const colours = () => data.colours[root.dataset.theme === "dark" ? "dark" : "light"];

  // One canvas with everything, a quarter larger than the view on each side. Leaflet moves it while the map is dragged,
  // and paints it anew when the map has come to rest.
  const Picture = L.Renderer.extend({
    options: { padding: 0.25 },
    _initContainer() { this._container = document.createElement("canvas"); },
    _destroyContainer() { this._container.remove(); },
    _update() {
      if (this._map._animatingZoom && this._bounds) return;
      L.Renderer.prototype._update.call(this);
      const canvas = this._container, { min } = this._bounds, size = this._bounds.getSize(), pixel = devicePixelRatio;
      L.DomUtil.setPosition(canvas, min);
      canvas.width = Math.round(size.x * pixel);
      canvas.height = Math.round(size.y * pixel);
      canvas.style.width = `${size.x}px`;
      canvas.style.height = `${size.y}px`;
      const corner = this._map.latLngToLayerPoint(bounds.getNorthWest()).subtract(min);
      paint(canvas.getContext("2d"), corner.x * pixel, corner.y * pixel, wide * this._map.getZoomScale(this._map.getZoom(), 0) * pixel, pixel, colours());
    },
  });
  const picture = new Picture();

  let whole = true;
  function showWhole(options) {
    map.fitBounds(bounds, { padding: [2, 2], animate: false, ...options });
    whole = true;
  }
  // A frame may have no size yet when the page loads; the map starts once it has one.
  new ResizeObserver(() => {
    if (!container.clientWidth || !container.clientHeight) return;
    if (map._loaded) map.invalidateSize({ pan: false, animate: false });
    map.setMinZoom(-20);
    if (whole || !map._loaded) showWhole();
    map.setMinZoom(map.getBoundsZoom(bounds, false, L.point(4, 4)));
    if (!map.hasLayer(picture)) map.addLayer(picture);
    else picture._update();
    drawScale();
    drawSizes(drawnWidth());
  }).observe(container);

  // A round length that takes at most 140 pixels if the map has a width in pixels; its pixels, and its name.
  function scaleBar(width, down) {
    const metres = (grid.x[1] - grid.x[0]) / width * data.earthRadius * Math.PI / 180 * Math.cos(yAt(down) * Math.PI / 180);
    const most = 140 * metres, power = 10 ** Math.floor(Math.log10(most));
    const length = [5, 2, 1].map((factor) => factor * power).find((size) => size <= most * 1.000001);
    return [length / metres, length >= 1000 ? `${number(length / 1000)} km` : `${number(length)} m`];
  }
  // The squares of the legend are as large as on the map of a width in pixels. One that is too large is drawn smaller,
  // and says so.
  function drawSizes(width) {
    for (const one of document.querySelectorAll(".sizes div")) {
      const size = 2 ** (depth - one.dataset.level), svg = one.firstChild, square = svg.firstChild;
      const across = Math.min(size, grid.cols) / grid.cols * width, down = Math.min(size, grid.rows) / grid.rows * width * data.ratio;
      const larger = Math.max(across, down), fit = larger > 96 ? 56 / larger : 1, sides = [across * fit, down * fit].map((side) => Math.max(1, side));
      for (const [name, side] of [["width", sides[0]], ["height", sides[1]]]) {
        svg.setAttribute(name, side + 1);
        square.setAttribute(name, side);
      }
      one.classList.toggle("smaller", fit < 1);
    }
  }
  function drawScale() {
    if (!geographic) return;
    const down = Math.min(grid.rows, Math.max(0, -map.getCenter().lat / tall * grid.rows));
    const [length, name] = scaleBar(drawnWidth(), down);
    byId("scale").hidden = false;
    byId("scale").lastChild.style.width = `${length}px`;
    byId("scale").lastChild.textContent = name;
  }
  const drawnWidth = () => wide * map.getZoomScale(map.getZoom(), 0);
  map.on("move zoom", drawScale);
  map.on("zoomend", () => drawSizes(drawnWidth()));
  map.on("dragstart zoomstart", () => { whole = false; });

  // ── Reading a square ──────────────────────────────────────────────────────────────────────────────────────────
  const tip = byId("tip"), frame = document.createElement("div");
  frame.className = "here";
  let here = null, cursor = null;

  function read(square, aloud) {
    here = square;
    tip.hidden = !square;
    frame.remove();
    if (!square) return;
    const lines = words(square);
    tip.replaceChildren(...lines.map((line) => Object.assign(document.createElement("p"), { textContent: line })));
    if (aloud) byId("heard").textContent = lines.join(". ");
    place();
  }

  // Put the frame around the square, and the text beside it.
  function place() {
    if (!here) return;
    const one = toLatLng(here.left, here.top), other = toLatLng(here.right, here.bottom);
    const corner = map.latLngToLayerPoint(one), size = map.latLngToLayerPoint(other).subtract(corner);
    L.DomUtil.setPosition(frame, corner.subtract([2, 2]));
    frame.style.width = `${size.x + 4}px`;
    frame.style.height = `${size.y + 4}px`;
    map.getPane("overlayPane").append(frame);
    const box = container.getBoundingClientRect(), left = map.latLngToContainerPoint(one), right = map.latLngToContainerPoint(other);
    const room = { x: box.width - tip.offsetWidth - 6, y: box.height - tip.offsetHeight - 6 };
    let x = Math.min(right.x, box.width) + 10, y = Math.max(left.y, 0);
    if (x > room.x) x = Math.max(left.x, 0) - tip.offsetWidth - 10;
    if (x < 6) { x = Math.max(6, Math.min(room.x, left.x)); y = right.y + 10 > room.y ? left.y - tip.offsetHeight - 10 : right.y + 10; }
    tip.style.transform = `translate(${Math.max(6, Math.min(room.x, x))}px, ${Math.max(6, Math.min(room.y, y))}px)`;
  }
  map.on("zoomstart", () => frame.remove());
  map.on("moveend zoomend", place);

  const readAt = (latlng, aloud) => {
    const x = latlng.lng / wide * grid.cols, y = -latlng.lat / tall * grid.rows, square = squareAt(x, y);
    cursor = square && { x, y };
    if (aloud || square !== here) read(square, aloud);
  };
  map.on("mousemove", (event) => readAt(event.latlng, false));
  map.on("click", (event) => readAt(event.latlng, true));
  map.on("mouseout", () => read(null));

  // ── Moving with the mouse, fingers and keys ───────────────────────────────────────────────────────────────────
  // The mouse drags the map; a finger scrolls the page. The kind of pointer is known before Leaflet sees the event.
  container.addEventListener("pointerdown", (event) => {
    map.dragging[event.pointerType === "mouse" ? "enable" : "disable"]();
  }, true);
  container.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const lines = event.deltaY * (event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1);
    const zoom = map.getZoom() - Math.max(-240, Math.min(240, lines)) / 160;
    map.setZoomAround(map.mouseEventToContainerPoint(event), zoom, { animate: false });
  }, { passive: false });

  function goTo(square, x, y) {
    cursor = { x, y };
    map.panInside(toLatLng((square.left + square.right) / 2, (square.top + square.bottom) / 2), { padding: [30, 30], animate: false });
    read(square, true);
  }
  const goToMiddle = (square) => goTo(square, (square.left + square.right) / 2, (square.top + square.bottom) / 2);

  // Step over the border of the square; the position along the border is kept.
  function step(across, down) {
    if (!here) { goToMiddle(ranked[0]); return; }
    const x = across ? (across > 0 ? here.right + 0.5 : here.left - 0.5) : cursor.x;
    const y = down ? (down > 0 ? here.bottom + 0.5 : here.top - 0.5) : cursor.y;
    const next = squareAt(x, y);
    if (next) goTo(next, across ? (next.left + next.right) / 2 : x, down ? (next.top + next.bottom) / 2 : y);
    else byId("heard").textContent = "The map ends here.";
  }
  const byRank = (step) => goToMiddle(ranked[here ? (here.rank + step + ranked.length) % ranked.length : 0]);
  const zoomBy = (step) => {
    const at = cursor && here ? map.latLngToContainerPoint(toLatLng(cursor.x, cursor.y)) : map.getSize().divideBy(2);
    map.setZoomAround(at, map.getZoom() + step);
  };
  const acts = {
    ArrowLeft: () => step(-1, 0), ArrowRight: () => step(1, 0), ArrowUp: () => step(0, -1), ArrowDown: () => step(0, 1),
    PageDown: () => byRank(1), PageUp: () => byRank(-1), Home: () => goToMiddle(ranked[0]), End: () => goToMiddle(ranked[ranked.length - 1]),
    "+": () => zoomBy(1), "=": () => zoomBy(1), "-": () => zoomBy(-1), "_": () => zoomBy(-1), "0": () => showWhole(), Escape: () => read(null),
  };
  container.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  });
  container.addEventListener("blur", () => read(null));
  byId("zoom-in").addEventListener("click", () => zoomBy(1));
  byId("zoom-out").addEventListener("click", () => zoomBy(-1));
  byId("whole").addEventListener("click", () => showWhole());

  // ── Light, dark and paper ─────────────────────────────────────────────────────────────────────────────────────
  const night = matchMedia("(prefers-color-scheme: dark)");
  let chosen = root.dataset.theme;
  function theme() {
    root.dataset.theme = chosen ?? (night.matches ? "dark" : "light");
    if (map.hasLayer(picture)) picture._update();
  }
  night.addEventListener("change", theme);
  byId("theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    theme();
  });
  theme();

  // A printed page has the whole map, in light colours, as large as the paper allows.
  function printed() {
    const sheet = byId("sheet"), width = Math.round(1200 * Math.min(1, 1 / data.ratio)), height = Math.round(width * data.ratio);
    const foot = geographic ? 48 : 0, pen = sheet.getContext("2d");
    sheet.width = width + 4;
    sheet.height = height + 4 + foot;
    paint(pen, 2, 2, width, 2, data.colours.light);
    // On paper the map is at most 130 mm high and as wide as A4 between the margins; a pixel of CSS is 1/96 inch.
    drawSizes(width * Math.min(1, 130 / 25.4 * 96 / sheet.height, 182 / 25.4 * 96 / sheet.width));
    if (!foot) return;
    const [length, name] = scaleBar(width / 2, grid.rows / 2), base = height + foot - 6;
    pen.strokeStyle = pen.fillStyle = "#000000";
    pen.lineWidth = 3;
    pen.beginPath();
    pen.moveTo(4, base - 14);
    pen.lineTo(4, base);
    pen.lineTo(4 + 2 * length, base);
    pen.lineTo(4 + 2 * length, base - 14);
    pen.stroke();
    pen.font = `24px ${getComputedStyle(document.body).fontFamily}`;
    pen.fillText(`${name}        ▲ N`, 16 + 2 * length, base - 2);
  }
  addEventListener("beforeprint", printed);
  addEventListener("afterprint", () => drawSizes(drawnWidth()));
  matchMedia("print").addEventListener("change", (event) => { if (event.matches) printed(); else drawSizes(drawnWidth()); });
})();
