package load

import (
	mathrand "math/rand/v2"
	"strconv"
)

// The supply chain's size in the StreamChain paper.
const (
	scmVendors   = 50
	scmProducts  = 500
	scmContracts = 6000
	scmQuantity  = 100
)

// scm is the supply chain: a share of its transactions make contracts and orders and change orders, alike often; the
// rest is analysis of one vendor or of all, alike often. Fewer accounts than the paper's contracts make it smaller.
//
// Inventories are those of the first contracts, which are the same whatever the seed. A new contract repeats vendors and
// product of one of them: an analysis reads all inventories, and would cost the more the longer a system has run.
type scm struct {
	chooser
	run       string
	contracts int
	writes    float64
}

func newSCM(o workloadOptions, writes float64) *scm {
	o.accounts = min(o.accounts, scmContracts)
	return &scm{chooser: newChooser(o), run: newRunID(), contracts: o.accounts, writes: writes}
}

func (w *scm) setup() []call {
	calls := make([]call, w.contracts)
	for i := range calls {
		calls[i] = newContract("c"+strconv.Itoa(i), i, strconv.Itoa(1+w.random(-1-i).IntN(scmQuantity)))
	}
	return calls
}

// newContract is between the vendors of a first contract, and of its product.
func newContract(id string, first int, quantity string) call {
	r := mathrand.New(mathrand.NewPCG(0, uint64(first)))
	seller := r.IntN(scmVendors)
	buyer := (seller + 1 + r.IntN(scmVendors-1)) % scmVendors
	return newCall("create_contract", id, strconv.Itoa(seller), strconv.Itoa(buyer), strconv.Itoa(r.IntN(scmProducts)), quantity)
}

func (w *scm) call(i int) call {
	r := w.random(i)
	id, first := w.run+"-"+strconv.Itoa(i), w.pick(r)
	chosen := "c" + strconv.Itoa(first)
	quantity := strconv.Itoa(1 + r.IntN(scmQuantity))
	if r.Float64() >= w.writes {
		if r.IntN(2) == 0 {
			return newCall("bullwhip")
		}
		return newCall("days_of_supply", strconv.Itoa(r.IntN(scmVendors)))
	}
	switch r.IntN(3) {
	case 0:
		return newContract(id, first, quantity)
	case 1:
		return newCall("place_order", id, chosen, quantity)
	default:
		return newCall("update_order", chosen, quantity)
	}
}

// scmSQL is the contract of the same name (package contracts/scm) as tables and stored procedures. Each transaction locks
// the inventories that it changes in the order of their key, so that none waits for another in a circle.
var scmSQL = sqlSchema{
	tables: []string{
		"CREATE TABLE IF NOT EXISTS contracts (id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, seller INT NOT NULL, buyer INT NOT NULL, product INT NOT NULL) ENGINE=InnoDB",
		"CREATE TABLE IF NOT EXISTS orders (id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, contract VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, quantity BIGINT NOT NULL, INDEX (contract)) ENGINE=InnoDB",
		"CREATE TABLE IF NOT EXISTS inventories (vendor INT, product INT, stock BIGINT NOT NULL DEFAULT 10000, demand BIGINT NOT NULL DEFAULT 0, ordered BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (vendor, product)) ENGINE=InnoDB",
		"DROP PROCEDURE IF EXISTS scm_create_contract",
		"DROP PROCEDURE IF EXISTS scm_place_order",
		"DROP PROCEDURE IF EXISTS scm_update_order",
		"DROP PROCEDURE IF EXISTS scm_days_of_supply",
		"DROP PROCEDURE IF EXISTS scm_bullwhip",
		`CREATE PROCEDURE scm_create_contract(IN new_id VARCHAR(64), IN s INT, IN b INT, IN p INT, IN q BIGINT)
		BEGIN
		  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
		  IF s = b THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a vendor cannot order from itself'; END IF;
		  START TRANSACTION;
		  INSERT INTO contracts VALUES (new_id, s, b, p);
		  INSERT INTO orders VALUES (new_id, new_id, q);
		  INSERT INTO inventories (vendor, product, demand, ordered)
		    VALUES (LEAST(s, b), p, IF(s < b, q, 0), IF(s < b, 0, q)), (GREATEST(s, b), p, IF(s > b, q, 0), IF(s > b, 0, q))
		    ON DUPLICATE KEY UPDATE demand = demand + VALUES(demand), ordered = ordered + VALUES(ordered);
		  SELECT CAST(demand AS CHAR) FROM inventories WHERE vendor = s AND product = p;
		  COMMIT;
		END`,
		`CREATE PROCEDURE scm_place_order(IN new_id VARCHAR(64), IN c VARCHAR(64) CHARACTER SET ascii, IN q BIGINT)
		BEGIN
		  DECLARE s, b, p INT DEFAULT NULL;
		  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
		  START TRANSACTION;
		  SELECT seller, buyer, product INTO s, b, p FROM contracts WHERE id = c;
		  IF s IS NULL THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the contract does not exist'; END IF;
		  INSERT INTO orders VALUES (new_id, c, q);
		  UPDATE inventories SET demand = demand + IF(vendor = s, q, 0), ordered = ordered + IF(vendor = b, q, 0)
		    WHERE vendor IN (s, b) AND product = p;
		  SELECT CAST(demand AS CHAR) FROM inventories WHERE vendor = s AND product = p;
		  COMMIT;
		END`,
		`CREATE PROCEDURE scm_update_order(IN o VARCHAR(64) CHARACTER SET ascii, IN q BIGINT)
		BEGIN
		  DECLARE s, b, p INT DEFAULT NULL;
		  DECLARE more BIGINT;
		  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
		  START TRANSACTION;
		  SELECT q - quantity INTO more FROM orders WHERE id = o FOR UPDATE;
		  SELECT seller, buyer, product INTO s, b, p FROM contracts WHERE id = (SELECT contract FROM orders WHERE id = o);
		  IF s IS NULL THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the order does not exist'; END IF;
		  UPDATE orders SET quantity = q WHERE id = o;
		  UPDATE inventories SET demand = demand + IF(vendor = s, more, 0), ordered = ordered + IF(vendor = b, more, 0)
		    WHERE vendor IN (s, b) AND product = p;
		  SELECT CAST(demand AS CHAR) FROM inventories WHERE vendor = s AND product = p;
		  COMMIT;
		END`,
		`CREATE PROCEDURE scm_days_of_supply(IN v INT)
		SELECT CAST(COALESCE(IF(SUM(demand) > 0, SUM(stock) * 30 DIV SUM(demand), -1), -1) AS CHAR) FROM inventories WHERE vendor = v`,
		`CREATE PROCEDURE scm_bullwhip()
		SELECT CAST(COALESCE(1000 * (COUNT(*) * SUM(o * o) - SUM(o) * SUM(o)) DIV NULLIF(COUNT(*) * SUM(d * d) - SUM(d) * SUM(d), 0), 0) AS CHAR)
		FROM (SELECT SUM(demand) AS d, SUM(ordered) AS o FROM inventories GROUP BY vendor) AS vendors`,
	},
	statements: map[string]string{
		"create_contract": "CALL scm_create_contract(?, ?, ?, ?, ?)",
		"place_order":     "CALL scm_place_order(?, ?, ?)",
		"update_order":    "CALL scm_update_order(?, ?)",
		"days_of_supply":  "CALL scm_days_of_supply(?)",
		"bullwhip":        "CALL scm_bullwhip()",
	},
}
