// Browsers refuse workers to pages that are opened from disk. There, the search runs in a hidden frame instead, so that
// the site needs no server and no network. Only what the search uses of a worker is here.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.started = new Promise((start) => {
        this.frame.onload = () => {
          const inside = this.frame.contentWindow;
          inside.postMessage = (data) => this.onmessage?.({ data: structuredClone(data) });
          const script = inside.document.createElement("script");
          script.onload = () => start(inside);
          script.onerror = (event) => this.onerror?.(event);
          script.src = url;
          inside.document.body.append(script);
        };
      });
      document.body.append(this.frame);
    }

    postMessage(data) {
      const copy = structuredClone(data); // a worker never shares objects with its page
      this.started.then((inside) => inside.onmessage({ data: copy }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
