export default function view(place) { place.textContent = 'chat'; }
