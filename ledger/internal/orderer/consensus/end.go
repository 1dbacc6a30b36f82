package consensus

import "context"

// IgnoreEnd is what Run returns for an error: nil where ctx has ended, which any error may come of.
func IgnoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
