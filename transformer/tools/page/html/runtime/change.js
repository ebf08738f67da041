// What if? A run of the model with some of its parts switched off. The model itself stays as it was trained.

export class Change {
  // heads: [{ attention, layer, head }] and layers: [{ side, layer }] are left out (all counted from 0); positions, scale,
  // causal and cross are left out where they are false.
  constructor({ heads = [], layers = [], positions = true, scale = true, causal = true, cross = true }) {
    Object.assign(this, { heads, layers, positions, scale, causal, cross });
  }

  // A layer that is skipped passes its states on as they are.
  skips(side, layer) {
    return this.layers.some(off => off.side === side && off.layer === layer);
  }

  // The heads of an attention whose weighted means of values are zero.
  headsOff(attention, layer) {
    return this.heads.filter(off => off.attention === attention && off.layer === layer).map(off => off.head);
  }
}
