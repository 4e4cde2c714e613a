// While a question is filled in, show its expected errors. Everything works without this file.
"use strict";
const form = document.getElementById("question");
if (form) {
  const slider = document.getElementById("slider");
  const epsilon = document.getElementById("epsilon");
  const left = Number(slider.dataset.left);
  const least = Number(slider.dataset.least);
  let timer = 0, under_way = new AbortController();
  document.body.classList.add("scripted");
  slider.hidden = !(left > least);

  const toSlider = () => {
    const value = Number(epsilon.value);
    if (value > 0) slider.value = 100 * Math.log(value / least) / Math.log(left / least);
  };
  const fromSlider = () => {
    const value = least * Math.pow(left / least, slider.value / 100);
    const short = Math.max(least, Number(value.toPrecision(2)));
    epsilon.value = String(slider.value === slider.max || short > left ? left : short);
  };
  const fail = () => {
    const notice = document.createElement("p");
    notice.className = "notice alarm";
    notice.setAttribute("role", "alert");
    notice.textContent = "What to expect cannot be shown just now. Press the button to try again.";
    document.querySelector("#expect h2").after(notice);
    document.body.classList.remove("scripted");  // so the form's own button is shown
  };
  const show = async () => {
    under_way.abort();
    const { signal } = under_way = new AbortController();
    const fields = new URLSearchParams(new FormData(form));
    fields.set("part", "expect");
    try {
      const answer = await fetch(form.getAttribute("action") + "?" + fields, { signal });
      if (answer.redirected || answer.status === 401) { location.assign("/enter"); return; }
      const found = new DOMParser().parseFromString(await answer.text(), "text/html");
      const part = found.getElementById("expect");
      if (part) document.getElementById("expect").replaceWith(part); else fail();
    } catch (error) {
      if (!signal.aborted) fail();
    }
  };
  const later = (event) => {
    const button = document.querySelector("#expect .pay button");
    if (button) button.disabled = true;
    clearTimeout(timer);
    if (event.target.id === "topic") { form.submit(); return; }
    if (document.body.classList.contains("scripted")) timer = setTimeout(show, 150);
  };
  slider.addEventListener("input", fromSlider);
  epsilon.addEventListener("input", toSlider);
  form.addEventListener("input", later);
  form.addEventListener("submit", (event) => {
    if (!document.body.classList.contains("scripted")) return;
    event.preventDefault();
    show();
  });
  toSlider();
}
