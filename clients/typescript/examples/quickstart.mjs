import { ApiError, createClient } from "letterhead-client";

const letterhead = createClient({
  baseUrl: process.env.LETTERHEAD_URL ?? "http://127.0.0.1:8080",
  apiKey: process.env.LETTERHEAD_KEY,
});

try {
  const { data: brand, creditsRemaining, requestId } = await letterhead.brand("github.com");
  console.log(`${brand.name}: ${brand.colors.map((color) => color.hex).join(" ")}`);
  console.log(`${creditsRemaining} credits are left`);

  const cost = await letterhead.explain(requestId);
  console.log(`the look-up cost ${cost.data.charged} credit`);
} catch (error) {
  if (!(error instanceof ApiError)) throw error;
  if (error.is("insufficient_credits")) {
    console.log(`${error.details.required} credit is needed: ${error.details.billing_url}`);
  } else {
    console.log(`${error.status} ${error.code}: ${error.message}`);
  }
}

for await (const entry of letterhead.ledger({ type: "CreditsCharged" })) {
  console.log(`${entry.at} ${entry.domain} ${entry.amount}`);
}
console.log(letterhead.logoUrl("github.com", { size: 64, theme: "dark" }));
