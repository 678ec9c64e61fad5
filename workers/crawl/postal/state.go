package postal

import "strings"

// states are the names of states and provinces whose codes are used in addresses.
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
	"BR": {
		"AC": "Acre", "AL": "Alagoas", "AP": "Amapá", "AM": "Amazonas", "BA": "Bahia", "CE": "Ceará", "DF": "Distrito Federal", "ES": "Espírito Santo", "GO": "Goiás",
		"MA": "Maranhão", "MT": "Mato Grosso", "MS": "Mato Grosso do Sul", "MG": "Minas Gerais", "PA": "Pará", "PB": "Paraíba", "PR": "Paraná", "PE": "Pernambuco", "PI": "Piauí",
		"RJ": "Rio de Janeiro", "RN": "Rio Grande do Norte", "RS": "Rio Grande do Sul", "RO": "Rondônia", "RR": "Roraima", "SC": "Santa Catarina", "SP": "São Paulo", "SE": "Sergipe", "TO": "Tocantins",
	},
	// States that addresses write in full. The keys are codes of ISO 3166-2, except
	// for Mexico, where they are the customary abbreviations.
	"IN": {
		"AP": "Andhra Pradesh", "AR": "Arunachal Pradesh", "AS": "Assam", "BR": "Bihar", "CG": "Chhattisgarh", "GA": "Goa", "GJ": "Gujarat", "HR": "Haryana", "HP": "Himachal Pradesh",
		"JH": "Jharkhand", "JK": "Jammu and Kashmir", "KA": "Karnataka", "KL": "Kerala", "MP": "Madhya Pradesh", "MH": "Maharashtra", "MN": "Manipur", "ML": "Meghalaya", "MZ": "Mizoram",
		"NL": "Nagaland", "OD": "Odisha", "PB": "Punjab", "RJ": "Rajasthan", "SK": "Sikkim", "TN": "Tamil Nadu", "TS": "Telangana", "TR": "Tripura", "UP": "Uttar Pradesh", "UK": "Uttarakhand", "WB": "West Bengal",
	},
	"AR": {
		"AR-B": "Provincia de Buenos Aires", "AR-K": "Catamarca", "AR-H": "Chaco", "AR-U": "Chubut", "AR-X": "Córdoba", "AR-W": "Corrientes", "AR-E": "Entre Ríos", "AR-P": "Formosa", "AR-Y": "Jujuy", "AR-L": "La Pampa",
		"AR-F": "La Rioja", "AR-M": "Mendoza", "AR-N": "Misiones", "AR-Q": "Neuquén", "AR-R": "Río Negro", "AR-A": "Salta", "AR-J": "San Juan", "AR-D": "San Luis", "AR-Z": "Santa Cruz", "AR-S": "Santa Fe",
		"AR-G": "Santiago del Estero", "AR-V": "Tierra del Fuego", "AR-T": "Tucumán",
	},
	"MX": {
		"AGS": "Aguascalientes", "BC": "Baja California", "BCS": "Baja California Sur", "CAMP": "Campeche", "CHIS": "Chiapas", "CHIH": "Chihuahua", "COAH": "Coahuila", "COL": "Colima", "DGO": "Durango",
		"GTO": "Guanajuato", "GRO": "Guerrero", "HGO": "Hidalgo", "JAL": "Jalisco", "MEX": "Estado de México", "MICH": "Michoacán", "MOR": "Morelos", "NAY": "Nayarit", "NL": "Nuevo León", "OAX": "Oaxaca",
		"PUE": "Puebla", "QRO": "Querétaro", "QROO": "Quintana Roo", "SLP": "San Luis Potosí", "SIN": "Sinaloa", "SON": "Sonora", "TAB": "Tabasco", "TAMPS": "Tamaulipas", "TLAX": "Tlaxcala", "VER": "Veracruz",
		"YUC": "Yucatán", "ZAC": "Zacatecas",
	},
	"CN": {
		"AH": "Anhui", "FJ": "Fujian", "GS": "Gansu", "GD": "Guangdong", "GX": "Guangxi", "GZ": "Guizhou", "HI": "Hainan", "HE": "Hebei", "HL": "Heilongjiang", "HA": "Henan", "HB": "Hubei", "HN": "Hunan",
		"NM": "Inner Mongolia", "JS": "Jiangsu", "JX": "Jiangxi", "JL": "Jilin", "LN": "Liaoning", "NX": "Ningxia", "QH": "Qinghai", "SN": "Shaanxi", "SD": "Shandong", "SX": "Shanxi", "SC": "Sichuan",
		"XJ": "Xinjiang", "YN": "Yunnan", "ZJ": "Zhejiang",
	},
}

// hindiStates are the states of India in Hindi.
var hindiStates = map[string]string{
	"उत्तर प्रदेश": "Uttar Pradesh", "मध्य प्रदेश": "Madhya Pradesh", "राजस्थान": "Rajasthan", "बिहार": "Bihar", "हरियाणा": "Haryana", "उत्तराखंड": "Uttarakhand", "झारखंड": "Jharkhand",
	"छत्तीसगढ़": "Chhattisgarh", "हिमाचल प्रदेश": "Himachal Pradesh", "महाराष्ट्र": "Maharashtra", "गुजरात": "Gujarat", "पंजाब": "Punjab", "पश्चिम बंगाल": "West Bengal", "कर्नाटक": "Karnataka",
}

// namesOfStates are the names of states by country and folded name.
var namesOfStates = func() map[string]map[string]string {
	out := map[string]map[string]string{}
	for country, names := range states {
		out[country] = make(map[string]string, len(names))
		for _, name := range names {
			out[country][folded(name)] = name
		}
	}
	return out
}()

// State returns the name of a country's state by its code, or by its name in any case and with or without accents; ""
// if the country's states are unknown or it has none of that name. "para", which is also a preposition, needs its
// capital or its accent.
func State(country, text string) string {
	if states[country] == nil {
		return ""
	}
	text = strings.Trim(text, " .,()")
	if name := states[country][strings.ToUpper(strings.ReplaceAll(text, ".", ""))]; name != "" {
		return name
	}
	if name := hindiStates[text]; name != "" && country == "IN" {
		return name
	}
	if text == "para" {
		return ""
	}
	return namesOfStates[country][folded(text)]
}

// zips are the first digits of the postal codes of the states of the United States, as assigned by its postal service.
// Delaware, whose code is also Germany's, has two digits.
var zips = map[string]string{
	"CT": "0", "MA": "0", "ME": "0", "NH": "0", "NJ": "0", "RI": "0", "VT": "0", "DE": "19", "NY": "1", "PA": "1", "DC": "2", "MD": "2", "NC": "2",
	"SC": "2", "VA": "2", "WV": "2", "AL": "3", "FL": "3", "GA": "3", "MS": "3", "TN": "3", "IN": "4", "KY": "4", "MI": "4", "OH": "4", "IA": "5",
	"MN": "5", "MT": "5", "ND": "5", "SD": "5", "WI": "5", "IL": "6", "KS": "6", "MO": "6", "NE": "6", "AR": "7", "LA": "7", "OK": "7", "TX": "7",
	"AZ": "8", "CO": "8", "ID": "8", "NM": "8", "NV": "8", "UT": "8", "WY": "8", "AK": "9", "CA": "9", "HI": "9", "OR": "9", "WA": "9",
}

// ZIPOf reports whether a postal code can belong to a state of the United States, given by its code or name. The codes
// of the states mean other things elsewhere, but with a matching postal code they mean the states.
func ZIPOf(state, code string) bool {
	name := State("US", state)
	for short, digits := range zips {
		if states["US"][short] == name && name != "" {
			return strings.HasPrefix(code, digits)
		}
	}
	return false
}
