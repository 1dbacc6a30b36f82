// Package calibrate measures how fast a machine is at what a ledger does all the time.
// A shared machine's speed differs by half from day to day, so figures taken on it are
// compared as multiples of these.
package calibrate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"time"
)

// Verifications and Signatures are what one transaction costs at least with one endorser,
// two peers and crash-tolerant orderers. The endorser checks the proposal, one orderer the
// envelope, and each peer the envelope and the endorsement. The client signs the proposal and
// the envelope, the endorser its endorsement.
const (
	Verifications = 6
	Signatures    = 3
)

// Result holds medians over the batches of one calibration.
type Result struct {
	VerifyMicros float64 `json:"verify_us"`    // one P-256 verification, standard library
	SignMicros   float64 `json:"sign_us"`      // one P-256 signature, standard library
	SyncMicros   float64 `json:"fsync_us"`     // 4 KiB appended and fsynced
	WakeMicros   float64 `json:"wake_up_us"`   // one byte sent through a pipe to a thread that sleeps: half a ping-pong
	FloorMicros  float64 `json:"signature_us"` // Verifications and Signatures of the above together
}

const (
	batches   = 9
	batchTime = 60 * time.Millisecond
	blockSize = 4096
)

// Run measures for about two seconds. Files are written in folder and removed.
func Run(folder string) (Result, error) {
	verify, sign, err := signatures()
	if err != nil {
		return Result{}, err
	}
	sync, err := syncs(folder)
	if err != nil {
		return Result{}, err
	}
	wake, err := wakeUps()
	if err != nil {
		return Result{}, err
	}
	return Result{
		VerifyMicros: verify, SignMicros: sign, SyncMicros: sync, WakeMicros: wake,
		FloorMicros: Verifications*verify + Signatures*sign,
	}, nil
}

func signatures() (verify, sign float64, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return 0, 0, fmt.Errorf("make a key: %w", err)
	}
	digest := sha256.Sum256([]byte("calibration"))
	signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		return 0, 0, fmt.Errorf("sign: %w", err)
	}
	verify, err = median(func() error {
		if !ecdsa.VerifyASN1(&key.PublicKey, digest[:], signature) {
			return fmt.Errorf("verify: the signature is refused")
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	sign, err = median(func() error {
		_, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
		return err
	})
	return verify, sign, err
}

func syncs(folder string) (micros float64, err error) {
	file, err := os.CreateTemp(folder, "calibrate-*")
	if err != nil {
		return 0, err
	}
	defer func() {
		file.Close()
		if removed := os.Remove(file.Name()); err == nil {
			err = removed
		}
	}()
	block := make([]byte, blockSize)
	return median(func() error {
		if _, err := file.Write(block); err != nil {
			return err
		}
		return file.Sync()
	})
}

// median times f in batches and returns the median batch's microseconds per call.
func median(f func() error) (float64, error) {
	var times []float64
	for range batches {
		start, calls := time.Now(), 0
		for time.Since(start) < batchTime {
			if err := f(); err != nil {
				return 0, err
			}
			calls++
		}
		times = append(times, float64(time.Since(start).Microseconds())/float64(calls))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
