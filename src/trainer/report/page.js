// Draws the charts, one at a time and after the first paint, so that the text is there at once.
{
  // In a block of its own: the bundle's many names are global.
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const options = { renderer: "svg", actions: false, tooltip: { theme: "run" } };

  const draw = async () => {
    const bundle = document.createElement("script");
    bundle.textContent = document.getElementById("bundle").textContent;
    document.head.append(bundle);
    for (const [id, spec] of Object.entries(specs)) {
      const place = document.getElementById(id);
      try {
        await vegaEmbed(place, spec, options);
      } catch (error) {
        place.textContent = `This chart cannot be drawn here: ${error}`;
        console.error(error);
      }
      await new Promise((next) => setTimeout(next));
    }
    document.body.dataset.drawn = "yes";
  };

  requestAnimationFrame(() => setTimeout(draw));
}
