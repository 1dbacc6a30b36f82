// Package network is the description of a bundled network: network.json, which
// `init` writes and all that start, load or inspect the network read.
package network

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// FileName is where the description lies in the network's folder.
const FileName = "network.json"

// File is network.json. Paths are relative to the folder that holds it; nodes run
// with that folder as their working directory.
type File struct {
	Channels  []string          `json:"channels"`
	Mode      string            `json:"mode"`
	Consenter string            `json:"consenter"`
	TLS       bool              `json:"tls"`
	WireGap   string            `json:"wire_gap,omitempty"` // between two writes of a client to a connection under load
	Nodes     []Node            `json:"nodes"`
	Clients   []Client          `json:"clients"`
	TLSCA     map[string]string `json:"tls_ca"` // MSP id to the PEM file of its TLS authority
}

// Node is one process of the network. One without arguments (a Kafka broker) is another program's, which is to find
// its place here.
type Node struct {
	Name       string   `json:"name"`
	Role       string   `json:"role"` // orderer, peer, chaincode or broker (the sequencer is one too)
	MSPID      string   `json:"msp_id"`
	Address    string   `json:"address"`
	Operations string   `json:"operations,omitempty"`
	Controller string   `json:"controller,omitempty"` // a broker's second address, for its quorum
	Config     string   `json:"config,omitempty"`
	Data       string   `json:"data,omitempty"`
	Log        string   `json:"log"`
	Args       []string `json:"args"`
	Chaincode  string   `json:"chaincode,omitempty"`
}

// Client is an identity that may use the network.
type Client struct {
	MSPID string `json:"msp_id"`
	Name  string `json:"name"`
	Cert  string `json:"cert"`
	Key   string `json:"key"`
}

// Load reads a description.
func Load(path string) (*File, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("network file: %w (`qioi-ledger init` writes one)", err)
	}
	f := &File{}
	if err := json.Unmarshal(raw, f); err != nil {
		return nil, fmt.Errorf("network file %s: %w", path, err)
	}
	return f, nil
}

// Save writes the description into a network's folder, whole or not at all.
func (f *File) Save(dir string) error {
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, FileName)
	if err := os.WriteFile(path+".tmp", append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
