// <brand-logo domain="acme.com" size="64" scheme="auto"></brand-logo> shows the logo of a domain.
(() => {
  const here = document.currentScript?.src || "{{.BaseURL}}/static/brand-logo.js"; // an imported module has none
  const logos = new URL("{{.Logos}}/", here).href;
  const sent = ["type", "theme", "background", "plate", "fallback", "key"]; // as parameters of the same name

  class BrandLogo extends HTMLElement {
    static observedAttributes = ["domain", "size", "scheme", "alt", ...sent];
    #style = new CSSStyleSheet(); // needs no permission in a page's policy
    #picture = document.createElement("picture");
    #dark = document.createElement("source");
    #image = new Image();
    #slot = document.createElement("slot");

    constructor() {
      super();
      this.attachShadow({ mode: "open" }).adoptedStyleSheets = [this.#style];
      this.#picture.append(this.#dark, this.#image);
      this.#image.loading = "lazy";
      this.#image.onerror = () => { // show the content of the element instead, if it has any
        this.#slot.append(this.#picture);
        this.shadowRoot.replaceChildren(this.#slot);
      };
    }

    connectedCallback() {
      const domain = (this.getAttribute("domain") || "").trim();
      const size = Math.min(1024, Math.max(16, parseInt(this.getAttribute("size")) || 128));
      const scheme = this.getAttribute("scheme");
      this.#style.replaceSync(`:host { display: inline-block; vertical-align: middle; width: ${size}px; height: ${size}px }
        :host([hidden]) { display: none }
        img { display: block; width: 100%; height: 100%; object-fit: contain }`);
      this.#slot.replaceChildren();
      this.shadowRoot.replaceChildren(domain ? this.#picture : this.#slot);
      if (!domain) return;
      this.#dark.media = scheme === "dark" ? "all" : scheme === "light" ? "not all" : "(prefers-color-scheme: dark)";
      this.#dark.srcset = this.#sources(domain, size, "auto-dark");
      this.#image.srcset = this.#sources(domain, size, "auto-light");
      this.#image.alt = this.getAttribute("alt") ?? domain;
      this.#image.width = this.#image.height = size;
    }

    attributeChangedCallback(name, before, after) {
      if (this.isConnected && before !== after) this.connectedCallback();
    }

    #sources(domain, size, background) {
      const query = new URLSearchParams();
      for (const name of sent) {
        const value = this.getAttribute(name);
        if (value) query.set(name, value.replace("#", ""));
      }
      if (!query.has("theme") && !query.has("background")) {
        query.set("background", background);
        if (this.getAttribute("scheme") === "auto") query.set("scheme", "auto");
      }
      const url = `${logos}${encodeURIComponent(domain)}?${query}&size=`;
      return `${url}${size}, ${url}${2 * size} 2x`;
    }
  }

  customElements.get("brand-logo") || customElements.define("brand-logo", BrandLogo);
})();
