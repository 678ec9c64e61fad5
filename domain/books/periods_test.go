package books

import (
	"testing"

	"letterhead/eventschemas"
)

func TestPeriods_EventsOutOfOrder_Fail(t *testing.T) {
	ended := func(month string) eventschemas.Event { return eventschemas.PeriodEnded{Month: month} }
	closed := func(month string) eventschemas.Event { return eventschemas.PeriodClosed{Month: month} }
	for name, events := range map[string][]eventschemas.Event{
		"closed without an end":  {closed("2026-09")},
		"another month closed":   {ended("2026-09"), closed("2026-10")},
		"closed twice":           {ended("2026-09"), closed("2026-09"), closed("2026-09")},
		"ended twice":            {ended("2026-09"), closed("2026-09"), ended("2026-09")},
		"a month without an end": {ended("2026-09"), closed("2026-09"), ended("2026-11")},
		"not closed before":      {ended("2026-09"), ended("2026-10")},
		"no month":               {ended("September")},
	} {
		var p Periods
		for i, ev := range events {
			err := p.Apply(ev, uint64(i+1), start)
			if last := i == len(events)-1; (err != nil) != last {
				t.Errorf("%s: event %d gives %v, want an error for the last one only", name, i, err)
			}
		}
	}
}

func TestAppendAmount_DecimalsOfTheCurrency(t *testing.T) {
	for _, c := range []struct {
		amount    int64
		commodity string
		want      string
	}{
		{0, "EUR", "0.00"}, {-5, "EUR", "-0.05"}, {4900, "JPY", "4900"}, {-1, CreditUnit, "-1"}, {1, "KWD", "0.001"}, {123456, "CLF", "12.3456"}, {-1 << 63, "EUR", "-92233720368547758.08"},
	} {
		if got := string(AppendAmount([]byte("x"), c.amount, c.commodity)); got != "x"+c.want {
			t.Errorf("AppendAmount(%d %s) = %q, want %q", c.amount, c.commodity, got, "x"+c.want)
		}
	}
}

func TestGrouped_Thousands_HaveCommas(t *testing.T) {
	for number, want := range map[string]string{
		"0": "0", "-1": "-1", "999": "999", "1000": "1,000", "-1000": "-1,000", "123456": "123,456", "1234567": "1,234,567", "-1234567.5678": "-1,234,567.5678", "49.00": "49.00",
	} {
		if got := Grouped(number); got != want {
			t.Errorf("Grouped(%s) = %s, want %s", number, got, want)
		}
	}
}
