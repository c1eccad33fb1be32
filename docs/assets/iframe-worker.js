/* Search for pages that are opened from a disk.
 *
 * Browsers start no Worker for a file:// page. This class has the part of Worker's interface that the theme's
 * search uses, and runs the script in a hidden frame of the same page.
 */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      this.loaded = new Promise((resolve) => { script.onload = () => resolve(inner); });
      frame.contentDocument.body.append(script);
    }

    postMessage(data) {
      this.loaded.then((inner) => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }
  };
}
