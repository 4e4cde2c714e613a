// While a question is put together, show what it will tell. Everything works without this file.
"use strict";
const form = document.getElementById("question");
if (form) {
  const slider = document.getElementById("slider");
  const epsilon = document.getElementById("epsilon");
  const left = Number(slider.dataset.left);
  const least = 0.01;
  const most = Math.max(left, 2 * least);
  let timer = 0, latest = 0;
  document.body.classList.add("scripted");
  slider.hidden = false;

  const toSlider = () => {
    const value = Number(epsilon.value);
    if (value > 0) slider.value = 100 * Math.log(value / least) / Math.log(most / least);
  };
  const fromSlider = () => {
    const value = Math.min(left || most, least * Math.pow(most / least, slider.value / 100));
    epsilon.value = String(Number(value.toPrecision(2)) > left ? left : Number(value.toPrecision(2)));
  };
  const show = async () => {
    const number = ++latest;
    const address = form.getAttribute("action") + "?" + new URLSearchParams(new FormData(form));
    const answer = await fetch(address);
    if (answer.redirected) { location.assign("/enter"); return; }
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    const part = found.getElementById("expect");
    if (number === latest && part) document.getElementById("expect").replaceWith(part);
  };
  const later = (event) => {
    const button = document.querySelector("#expect .pay button");
    if (button) button.disabled = true;
    clearTimeout(timer);
    if (event.target.id === "topic") { form.submit(); return; }
    timer = setTimeout(show, 150);
  };
  slider.addEventListener("input", fromSlider);
  epsilon.addEventListener("input", toSlider);
  form.addEventListener("input", later);
  form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
  toSlider();
}
