//go:build !purego

package p256

import (
	"encoding/binary"
	"math/big"
	_ "unsafe" // for linkname

	_ "filippo.io/nistec" // holds the assembly that is linked to
)

// element is a member of the base field in Montgomery form (R = 2^256), least limb first.
type element [4]uint64

// jacobian is the point (x/z², y/z³); z = 0 is infinity.
type jacobian struct{ x, y, z element }

// affine is a point that is not infinity.
type affine struct{ x, y element }

// mul sets res = a·b.
//
//go:linkname mul filippo.io/nistec.p256Mul
//go:noescape
func mul(res, a, b *element)

// sqr squares in n times.
//
//go:linkname sqr filippo.io/nistec.p256Sqr
//go:noescape
func sqr(res, in *element, n int)

// addAffine sets res = a + b, or a - b where sign is 1. Where zero is 0 it takes a as
// infinity; where sel is 0 it takes b as infinity. It is wrong for a = b, and then, as
// for a = -b, leaves z = 0, which every later addition keeps.
//
//go:linkname addAffine filippo.io/nistec.p256PointAddAffineAsm
//go:noescape
func addAffine(res, a *jacobian, b *affine, sign, sel, zero int)

// addFull sets res = a + b, both not infinity, and tells whether they are equal, in
// which case res is wrong.
//
//go:linkname addFull filippo.io/nistec.p256PointAddAsm
//go:noescape
func addFull(res, a, b *jacobian) int

// double sets res = 2·in.
//
//go:linkname double filippo.io/nistec.p256PointDoubleAsm
//go:noescape
func double(res, in *jacobian)

var (
	prime, _ = new(big.Int).SetString("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff", 16)
	order, _ = new(big.Int).SetString("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)

	one      = limbs(new(big.Int).Mod(new(big.Int).Lsh(big.NewInt(1), 256), prime))
	rSquared = limbs(new(big.Int).Mod(new(big.Int).Lsh(big.NewInt(1), 512), prime))
)

// limbs splits v < 2^256.
func limbs(v *big.Int) (e element) {
	var b [32]byte
	v.FillBytes(b[:])
	for i := range e {
		e[i] = binary.BigEndian.Uint64(b[24-8*i:])
	}
	return e
}

// montgomery takes v < prime into the field.
func montgomery(v *big.Int) element {
	e := limbs(v)
	mul(&e, &e, &rSquared)
	return e
}

// invert gives 1/in by Fermat: in^(prime-2). It is for the making of tables only.
func invert(in *element) element {
	exponent := new(big.Int).Sub(prime, big.NewInt(2))
	out := one
	for i := exponent.BitLen() - 1; i >= 0; i-- {
		sqr(&out, &out, 1)
		if exponent.Bit(i) == 1 {
			mul(&out, &out, in)
		}
	}
	return out
}
