package channelconfig

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kindIn is a consensus type, or a value of --consenter, that an expression names.
func kindIn(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return kindIn(e.Sel)
	case *ast.Ident:
		switch e.Name {
		case "Solo", "Raft", "Kafka", "BFT", "Sequencer", "Zyzzyva":
			return true
		}
	case *ast.BasicLit:
		switch strings.Trim(e.Value, `"`) {
		case "solo", "raft", "kafka", "bft", "sequencer", "zyzzyva":
			return true
		}
	}
	return false
}

// TestNobodyBranchesOnTheKindOfConsenter: a new kind would have to find each of these places. What depends on the kind stands
// where one is made.
func TestNobodyBranchesOnTheKindOfConsenter(t *testing.T) {
	files := token.NewFileSet()
	read := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		// Benchmarks without a channel measure protocols, whose names they have in their own options.
		if strings.Contains(path, "bftbench") {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		read++
		ast.Inspect(file, func(n ast.Node) bool {
			var named []ast.Expr
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					named = []ast.Expr{n.X, n.Y}
				}
			case *ast.CaseClause:
				named = n.List
			}
			for _, e := range named {
				assert.False(t, kindIn(e), "%s: a branch on the kind", files.Position(e.Pos()))
			}
			return true
		})
		return nil
	}))
	require.Greater(t, read, 100)
}
