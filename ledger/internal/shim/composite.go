package shim

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Fabric's composite keys: U+0000, the object type, U+0000, then each attribute
// followed by U+0000. Keys that start with U+0000 are theirs alone, and U+10FFFF
// ends the range of all keys with a common beginning.
const (
	separator = "\x00"
	maxRune   = string(utf8.MaxRune)
)

// ErrKey says that a key or a part of a composite key is not acceptable.
var ErrKey = errors.New("bad key")

// CreateCompositeKey joins an object type and its attributes to one key.
func CreateCompositeKey(objectType string, attributes []string) (string, error) {
	var key strings.Builder
	key.WriteString(separator)
	for _, part := range append([]string{objectType}, attributes...) {
		if err := checkPart(part); err != nil {
			return "", err
		}
		key.WriteString(part)
		key.WriteString(separator)
	}
	return key.String(), nil
}

// SplitCompositeKey is the inverse of CreateCompositeKey.
func SplitCompositeKey(key string) (objectType string, attributes []string, err error) {
	if len(key) < 2 || !strings.HasPrefix(key, separator) || !strings.HasSuffix(key, separator) {
		return "", nil, fmt.Errorf("%w %q: not a composite key", ErrKey, key)
	}
	parts := strings.Split(key[1:len(key)-1], separator)
	return parts[0], parts[1:], nil
}

func checkPart(part string) error {
	if !utf8.ValidString(part) {
		return fmt.Errorf("%w: part %q of a composite key is not UTF-8", ErrKey, part)
	}
	if strings.Contains(part, separator) || strings.Contains(part, maxRune) {
		return fmt.Errorf("%w: part %q of a composite key contains U+0000 or U+10FFFF", ErrKey, part)
	}
	return nil
}

// partialRange is the range of all composite keys that begin with these parts.
func partialRange(objectType string, attributes []string) (start, end string, err error) {
	start, err = CreateCompositeKey(objectType, attributes)
	return start, start + maxRune, err
}

// simpleRange refuses ends among the composite keys; an open start means the
// first simple key, so that a full scan leaves composite keys out.
func simpleRange(start, end string) (string, string, error) {
	for _, key := range []string{start, end} {
		if strings.HasPrefix(key, separator) {
			return "", "", fmt.Errorf("%w %q: a range of simple keys cannot start or end with U+0000", ErrKey, key)
		}
	}
	if start == "" {
		start = "\x01"
	}
	return start, end, nil
}
