//go:build !purego

package p256

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"math/big"
	"sync"
)

// Scalars are cut into 32 digits of 8 bits, each in [-127, 128], and one carry. A
// table is 256 KiB: it stays in the second-level cache, where wider digits would not.
const (
	windows = 32
	half    = 128
)

// Table holds the multiples of one public key. It never changes.
type Table struct {
	key     *ecdsa.PublicKey
	windows [windows][half]affine // [i][j] is (j+1)·256^i·Q
	top     affine                // 256^32·Q
}

var generator = sync.OnceValue(func() *Table {
	params := elliptic.P256().Params()
	return newTable(params.Gx, params.Gy)
})

// New makes the table of a key, in about 2 ms. It gives nil for a key of another curve
// or one that is not a point.
func New(key *ecdsa.PublicKey) *Table {
	if key.Curve != elliptic.P256() {
		return nil
	}
	point, err := key.Bytes() // which checks that it is on the curve
	if err != nil {
		return nil
	}
	generator()
	t := newTable(new(big.Int).SetBytes(point[1:33]), new(big.Int).SetBytes(point[33:])) // after a byte that says: uncompressed
	t.key = key
	return t
}

func newTable(x, y *big.Int) *Table {
	points := make([]jacobian, 0, windows*half+1)
	base := jacobian{montgomery(x), montgomery(y), one}
	for range windows {
		// With j·B for j = 1..128: 2·B by doubling, then B more each time. j·B = B is
		// out of reach, and so is infinity, as the order is a prime above 2^255.
		points = append(points, base)
		var next jacobian
		double(&next, &base)
		for range half - 1 {
			points = append(points, next)
			addFull(&next, &next, &base)
		}
		double(&base, &points[len(points)-1])
	}
	points = append(points, base)

	t := &Table{}
	flat := normalise(points)
	for i := range t.windows {
		copy(t.windows[i][:], flat[i*half:])
	}
	t.top = flat[windows*half]
	return t
}

// normalise divides by every z with one inversion (Montgomery's trick).
func normalise(points []jacobian) []affine {
	products := make([]element, len(points)) // of all z before
	running := one
	for i := range points {
		products[i] = running
		mul(&running, &running, &points[i].z)
	}
	inverse := invert(&running)
	out := make([]affine, len(points))
	for i := len(points) - 1; i >= 0; i-- {
		p := &points[i]
		var zInv, zInv2 element
		mul(&zInv, &inverse, &products[i])
		mul(&inverse, &inverse, &p.z)
		sqr(&zInv2, &zInv, 1)
		mul(&out[i].x, &p.x, &zInv2)
		mul(&zInv2, &zInv2, &zInv)
		mul(&out[i].y, &p.y, &zInv2)
	}
	return out
}

// Verify reports whether (r, s) signs the 32-byte digest.
func (t *Table) Verify(digest []byte, r, s *big.Int) bool {
	if r.Sign() <= 0 || s.Sign() <= 0 || r.Cmp(order) >= 0 || s.Cmp(order) >= 0 {
		return false
	}
	w := new(big.Int).ModInverse(s, order)
	u1 := new(big.Int).SetBytes(digest)
	u1.Mod(u1.Mul(u1, w), order)
	u2 := w.Mod(w.Mul(r, w), order)

	chosen := scratch.Get().(*terms)
	chosen.choose(generator(), u1)
	chosen.choose(t, u2)
	sum := chosen.sum()
	scratch.Put(chosen)
	if sum.z == (element{}) {
		// The sum is infinity, or two equal points met on the way (see addAffine). This
		// does not happen by chance; a client that makes it happen gets the slow check.
		return ecdsa.Verify(t.key, digest, r, s)
	}
	// x mod order = r, with x = X/Z²: X = r·Z², or X = (r + order)·Z² where that is below prime.
	var z2, want element
	sqr(&z2, &sum.z, 1)
	candidate := montgomery(r)
	mul(&want, &candidate, &z2)
	if want == sum.x {
		return true
	}
	second := new(big.Int).Add(r, order)
	if second.Cmp(prime) >= 0 {
		return false
	}
	candidate = montgomery(second)
	mul(&want, &candidate, &z2)
	return want == sum.x
}

// terms are the table entries whose sum is wanted. They are fetched before any is added: each lies somewhere in
// 256 KiB, which beside other work are rarely in the cache, and loads that do not wait for each other overlap.
type terms struct {
	points [2 * (windows + 1)]affine
	signs  [2 * (windows + 1)]int
	count  int
}

// scratch keeps their 5 KiB off the stacks of short-lived goroutines.
var scratch = sync.Pool{New: func() any { return new(terms) }}

// choose appends the entries that make up scalar times the table's key.
func (c *terms) choose(t *Table, scalar *big.Int) {
	var digits [windows]byte
	scalar.FillBytes(digits[:])
	carry := 0
	for i := range windows {
		digit := int(digits[windows-1-i]) + carry
		carry = 0
		sign := 0
		if digit > half {
			digit, sign, carry = 2*half-digit, 1, 1
		}
		if digit != 0 {
			c.append(&t.windows[i][digit-1], sign)
		}
	}
	if carry != 0 {
		c.append(&t.top, 0)
	}
}

func (c *terms) append(p *affine, sign int) {
	c.points[c.count], c.signs[c.count] = *p, sign
	c.count++
}

// sum adds the entries up, and forgets them.
func (c *terms) sum() (out jacobian) {
	for i := range c.count {
		addAffine(&out, &out, &c.points[i], c.signs[i], 1, i) // the first is added to infinity
	}
	c.count = 0
	return out
}
