// Renders a chart's templates as `helm template` does, as far as ours use it: a stand-in for hosts without helm.
//
// The arguments are the templates' files; standard input is the document that they are given, as JSON. What a template
// makes is written to standard output, each after a line `---`.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

func main() {
	var given map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		log.Fatal(err)
	}
	given["Template"] = map[string]any{"BasePath": "templates"}
	all := template.New("").Option("missingkey=error")
	include := func(name string, data any) (string, error) {
		var made strings.Builder
		err := all.ExecuteTemplate(&made, name, data)
		return made.String(), err
	}
	all.Funcs(template.FuncMap{
		"dict":      func() map[string]any { return map[string]any{} },
		"include":   include,
		"nindent":   nindent,
		"quote":     func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"set":       set,
		"sha256sum": func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) },
		"toJson":    toJSON,
		"toYaml":    toYAML,
	})
	for _, file := range os.Args[1:] {
		text, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		template.Must(all.New("templates/" + filepath.Base(file)).Parse(string(text)))
	}
	for _, file := range os.Args[1:] {
		made, err := include("templates/"+filepath.Base(file), given)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("---\n%s\n", made)
	}
}

func set(in map[string]any, key string, value any) map[string]any {
	in[key] = value
	return in
}

func nindent(columns int, text string) string {
	margin := "\n" + strings.Repeat(" ", columns)
	return margin + strings.ReplaceAll(text, "\n", margin)
}

func toJSON(value any) (string, error) {
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(made.String(), "\n"), err
}

// toYAML writes a line for each key or item, with its value as JSON, which is YAML too.
func toYAML(value any) (string, error) {
	var lines []string
	add := func(before string, one any) error {
		text, err := toJSON(one)
		lines = append(lines, before+text)
		return err
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if err := add(key+": ", value[key]); err != nil {
				return "", err
			}
		}
	case []any:
		for _, one := range value {
			if err := add("- ", one); err != nil {
				return "", err
			}
		}
	default:
		return toJSON(value)
	}
	return strings.Join(lines, "\n"), nil
}
