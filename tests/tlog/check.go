// Checks a log with Go's own packages: the signatures of a checkpoint, an inclusion proof, all roots and consistency proofs.
// It reads one JSON object from the standard input and prints what it has checked.
package main

import (
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type input struct {
	LogKey      string
	WitnessName string
	WitnessID   uint32
	WitnessKey  []byte
	Note        string
	Index       int64
	OnlyProof   bool
	Leaves      [][]byte
	Roots       [][]byte
	Inclusion   [][]byte
	Consistency []struct {
		Old, New int64
		Proof    [][]byte
	}
}

// Go's package knows the signatures of logs; those of witnesses have a time before them.
type cosigner struct{ input }

func (c cosigner) Name() string    { return c.WitnessName }
func (c cosigner) KeyHash() uint32 { return c.WitnessID }
func (c cosigner) Verify(text, signature []byte) bool {
	if len(signature) != 72 {
		return false
	}
	head := fmt.Sprintf("cosignature/v1\ntime %d\n", binary.BigEndian.Uint64(signature))
	return ed25519.Verify(c.WitnessKey, append([]byte(head), text...), signature[8:])
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func hashes(raw [][]byte) []tlog.Hash {
	found := make([]tlog.Hash, len(raw))
	for n, each := range raw {
		copy(found[n][:], each)
	}
	return found
}

func main() {
	var in input
	must(json.NewDecoder(os.Stdin).Decode(&in))
	log, err := note.NewVerifier(in.LogKey)
	must(err)
	opened, err := note.Open([]byte(in.Note), note.VerifierList(log, cosigner{in}))
	must(err)
	tree, err := tlog.ParseTree([]byte("go.sum database tree\n" + strings.SplitN(opened.Text, "\n", 2)[1]))
	must(err)
	must(tlog.CheckRecord(hashes(in.Inclusion), tree.N, tree.Hash, in.Index, tlog.RecordHash(in.Leaves[in.Index])))

	if in.OnlyProof {
		fmt.Println(len(opened.Sigs), "signatures, number", in.Index, "of", tree.N)
		return
	}
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		found := make([]tlog.Hash, len(indexes))
		for n, index := range indexes {
			found[n] = stored[index]
		}
		return found, nil
	})
	roots := hashes(in.Roots)
	for n, leaf := range in.Leaves {
		added, err := tlog.StoredHashes(int64(n), leaf, reader)
		must(err)
		stored = append(stored, added...)
		root, err := tlog.TreeHash(int64(n+1), reader)
		must(err)
		if root != roots[n+1] {
			must(fmt.Errorf("the root of %d leaves differs", n+1))
		}
	}
	for _, each := range in.Consistency {
		must(tlog.CheckTree(hashes(each.Proof), each.New, roots[each.New], each.Old, roots[each.Old]))
		made, err := tlog.ProveTree(each.New, each.Old, reader)
		must(err)
		if fmt.Sprint(made) != fmt.Sprint(tlog.TreeProof(hashes(each.Proof))) {
			must(fmt.Errorf("the proof from %d to %d differs", each.Old, each.New))
		}
	}
	fmt.Println(len(opened.Sigs), "signatures,", len(in.Leaves), "roots,", len(in.Consistency), "consistency proofs")
}
