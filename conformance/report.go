package conformance

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Report lists the checks and their results.
type Report struct {
	Rows []Row
}

// Row has the results for one endpoint.
type Row struct {
	Endpoint  string
	Published bool
	// Checks is the number of checks, and Codes counts the HTTP codes of the answers.
	Checks int
	Codes  map[int]int
	// Broken has a sentence for each broken promise, and Skipped a sentence for each check that was not made, with the
	// reason.
	Broken  []string
	Skipped []string
}

// Broken returns the number of broken promises.
func (r *Report) Broken() int {
	n := 0
	for i := range r.Rows {
		n += len(r.Rows[i].Broken)
	}
	return n
}

// Print writes the coverage table, broken promises, skipped checks, and a last line with the totals.
func (r *Report) Print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ENDPOINT\tSOURCE\tCHECKS\tCODES SEEN\tBROKEN")
	checks := 0
	for i := range r.Rows {
		row := &r.Rows[i]
		source := "ours"
		if row.Published {
			source = "published"
		}
		var codes []string
		for _, code := range slices.Sorted(maps.Keys(row.Codes)) {
			codes = append(codes, strconv.Itoa(code)+"×"+strconv.Itoa(row.Codes[code]))
		}
		checks += row.Checks
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%d\n", row.Endpoint, source, row.Checks, strings.Join(codes, " "), len(row.Broken))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i := range r.Rows {
		for _, what := range r.Rows[i].Skipped {
			fmt.Fprintf(w, "skipped: %s: %s\n", r.Rows[i].Endpoint, what)
		}
	}
	for i := range r.Rows {
		for _, what := range r.Rows[i].Broken {
			fmt.Fprintf(w, "BROKEN: %s: %s\n", r.Rows[i].Endpoint, what)
		}
	}
	_, err := fmt.Fprintf(w, "endpoints=%d checks=%d broken=%d\n", len(r.Rows), checks, r.Broken())
	return err
}
