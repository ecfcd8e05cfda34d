// Shows this service's own description of its API.
window.addEventListener("load", () => {
  SwaggerUIBundle({ url: "/openapi.json", dom_id: "#docs", deepLinking: true, validatorUrl: null });
});
