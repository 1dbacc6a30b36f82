package ops

import (
	"net/http"
	"runtime/debug"
)

// Build says which build of the ledger a program is, in the form that Fabric's endpoint /version has.
type Build struct {
	CommitSHA string `json:"CommitSHA,omitempty"`
	Version   string `json:"Version,omitempty"`
}

// ThisBuild is that of the running program. A build outside of a repository knows no commit, and calls its version (devel).
func ThisBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Build{}
	}
	b := Build{Version: info.Main.Version}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			b.CommitSHA = setting.Value
		}
	}
	return b
}

// String is what --version prints.
func (b Build) String() string {
	if b.CommitSHA == "" {
		return b.Version
	}
	return b.Version + " (commit " + b.CommitSHA + ")"
}

func getVersion(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, ThisBuild()) }
