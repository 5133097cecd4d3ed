// Runs in a world of its own beside the page, from before the page's first script.
(() => {
  const seen = { largest: null, element: null, shift: 0, blocking: 0 };
  let session = 0, sessionBegan = 0, sessionLast = 0;

  const selector = (element) => {
    if (!element || !element.tagName) return null;
    let text = element.tagName.toLowerCase();
    if (element.id) text += '#' + element.id;
    for (const name of element.classList || []) text += '.' + name;
    return text.slice(0, 200);
  };
  const watch = (type, take) => {
    try {
      const observer = new PerformanceObserver((list) => list.getEntries().forEach(take));
      observer.observe({ type, buffered: true });
    } catch (_) { /* this browser does not know it */ }
  };

  watch('largest-contentful-paint', (entry) => {
    seen.largest = entry.renderTime || entry.loadTime || entry.startTime;
    seen.element = selector(entry.element);
  });
  // The worst burst: shifts less than 1 s apart, within 5 s.
  watch('layout-shift', (entry) => {
    if (entry.hadRecentInput) return;
    const goesOn = entry.startTime - sessionLast < 1000 && entry.startTime - sessionBegan < 5000;
    if (!goesOn) { session = 0; sessionBegan = entry.startTime; }
    session += entry.value;
    sessionLast = entry.startTime;
    seen.shift = Math.max(seen.shift, session);
  });
  watch('longtask', (entry) => { seen.blocking += Math.max(0, entry.duration - 50); });

  globalThis.roundsmanMeasured = () => {
    const paint = {};
    for (const entry of performance.getEntriesByType('paint')) paint[entry.name] = entry.startTime;
    const load = performance.getEntriesByType('navigation')[0] || {};
    return {
      firstPaint: paint['first-paint'],
      firstContentfulPaint: paint['first-contentful-paint'],
      largestContentfulPaint: seen.largest,
      largestElement: seen.element,
      layoutShift: seen.shift,
      blockingTime: seen.blocking,
      domContentLoaded: load.domContentLoadedEventEnd || null,
      load: load.loadEventEnd || null,
    };
  };
})();
