package postal

import "strings"

// states are the names of states and provinces whose codes are used in
// addresses.
var states = map[string]map[string]string{
	"US": {
		"AL": "Alabama", "AK": "Alaska", "AZ": "Arizona", "AR": "Arkansas", "CA": "California", "CO": "Colorado", "CT": "Connecticut",
		"DE": "Delaware", "DC": "District of Columbia", "FL": "Florida", "GA": "Georgia", "HI": "Hawaii", "ID": "Idaho", "IL": "Illinois",
		"IN": "Indiana", "IA": "Iowa", "KS": "Kansas", "KY": "Kentucky", "LA": "Louisiana", "ME": "Maine", "MD": "Maryland",
		"MA": "Massachusetts", "MI": "Michigan", "MN": "Minnesota", "MS": "Mississippi", "MO": "Missouri", "MT": "Montana", "NE": "Nebraska",
		"NV": "Nevada", "NH": "New Hampshire", "NJ": "New Jersey", "NM": "New Mexico", "NY": "New York", "NC": "North Carolina",
		"ND": "North Dakota", "OH": "Ohio", "OK": "Oklahoma", "OR": "Oregon", "PA": "Pennsylvania", "RI": "Rhode Island",
		"SC": "South Carolina", "SD": "South Dakota", "TN": "Tennessee", "TX": "Texas", "UT": "Utah", "VT": "Vermont", "VA": "Virginia",
		"WA": "Washington", "WV": "West Virginia", "WI": "Wisconsin", "WY": "Wyoming",
	},
	"CA": {
		"AB": "Alberta", "BC": "British Columbia", "MB": "Manitoba", "NB": "New Brunswick", "NL": "Newfoundland and Labrador",
		"NS": "Nova Scotia", "NT": "Northwest Territories", "NU": "Nunavut", "ON": "Ontario", "PE": "Prince Edward Island", "QC": "Quebec",
		"SK": "Saskatchewan", "YT": "Yukon",
	},
	"AU": {
		"NSW": "New South Wales", "VIC": "Victoria", "QLD": "Queensland", "WA": "Western Australia", "SA": "South Australia",
		"TAS": "Tasmania", "ACT": "Australian Capital Territory", "NT": "Northern Territory",
	},
}

// State returns the name of a country's state by its code, or by its name in
// any case; "" if the country's states are unknown or it has none of that name.
func State(country, text string) string {
	text = strings.Trim(text, " .,")
	if name := states[country][strings.ToUpper(strings.ReplaceAll(text, ".", ""))]; name != "" {
		return name
	}
	for _, name := range states[country] {
		if strings.EqualFold(name, text) {
			return name
		}
	}
	return ""
}

// zips are the first digits of the postal codes of the states of the United
// States, as assigned by its postal service. Delaware, whose code is also
// Germany's, has two digits.
var zips = map[string]string{
	"CT": "0", "MA": "0", "ME": "0", "NH": "0", "NJ": "0", "RI": "0", "VT": "0", "DE": "19", "NY": "1", "PA": "1", "DC": "2", "MD": "2", "NC": "2",
	"SC": "2", "VA": "2", "WV": "2", "AL": "3", "FL": "3", "GA": "3", "MS": "3", "TN": "3", "IN": "4", "KY": "4", "MI": "4", "OH": "4", "IA": "5",
	"MN": "5", "MT": "5", "ND": "5", "SD": "5", "WI": "5", "IL": "6", "KS": "6", "MO": "6", "NE": "6", "AR": "7", "LA": "7", "OK": "7", "TX": "7",
	"AZ": "8", "CO": "8", "ID": "8", "NM": "8", "NV": "8", "UT": "8", "WY": "8", "AK": "9", "CA": "9", "HI": "9", "OR": "9", "WA": "9",
}

// ZIPOf reports whether a postal code can belong to a state of the United
// States, given by its code or name. The codes of the states mean other things
// elsewhere, but with a matching postal code they mean the states.
func ZIPOf(state, code string) bool {
	name := State("US", state)
	for short, digits := range zips {
		if states["US"][short] == name && name != "" {
			return strings.HasPrefix(code, digits)
		}
	}
	return false
}
