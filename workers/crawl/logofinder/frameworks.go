package logofinder

import (
	"strings"

	"letterhead/workers/crawl/site"
)

// frameworkFiles maps the SHA-256 of the icons and logos in the project templates of frameworks to the name of the
// framework. Source: the files in the npm packages create-vite 2.9.5, 5.2.3 and 9.3.0, cra-template 1.3.0,
// create-next-app 12.3.4, 14.2.5 and 16.4.3, @schematics/angular 12.2.0, 16.2.0 and 21.2.28, @vue/cli-service 5.0.9,
// create-vue 3.22.3, create-svelte 6.0.0, sv 0.17.1, create-docusaurus 3.10.2.
var frameworkFiles = map[string]string{
	"4a748afd443918bb16591c834c401dae33e87861ab5dbad0811c3a3b4a9214fb": "vite",
	"5be21acd42eb7b896e517f4e0f0f11eb5c5d9e54fbbcebe9453f033008fcca6f": "vite",
	"61bc9a161de58248288e6905425d7180f0624c2865007b97d763fdac12043a66": "vite",
	"ceeac38434be7a3b4d0f68b8cd8aa2b9ae78c260d6343087c6e095f8031ce4ff": "vite",
	"17e50649ce0babbf448e8a728d4475192b60b4d096a7d9414df727128435519e": "vite",
	"35ef61ed53b323ae94a16a8ec659b3d0af3880698791133f23b084085ab1c2e5": "react",
	"ecc203fbd1d0b912e7653108ff7d6e4f98da8a17b94d9f7045d06eccfad93a85": "react",
	"6000b0e9b0b05b3f112de04f0d039768a1db63588ff9b6ef7099dbd71632f383": "react",
	"3d10f7da6c603178340081668c4ac5b3ae9743ca9a262ab0fcd312fbb9f48bdd": "react",
	"c386396ec70db3608075b5fbfaac4ab1ccaa86ba05a68ab393ec551eb66c3e00": "react",
	"9ea4f4da7050c0cc408926f6a39c253624e9babb1d43c7977cd821445a60b461": "react",
	"03d6d6da2545d3b3402855b8e721b779abaa87d113e69d9329ea6ea6325a83ce": "vue",
	"5532db34f1c52841881bab8aeca6c3e8d092bd21a689a65f4d8f8cf8041eef9d": "vue",
	"277e0e97813ffd3af7f70f14474967a1f535de3033efaeb3e746e9ece04f8cc9": "vue",
	"b5a247be139ce5fe1dd17612dffcadde68a7fcb54b219468b35386d13b366beb": "vue",
	"db74ab0b78338c1f778f8398c45f4103c99aea0e845a3118a7750b4eeafd3445": "vue",
	"2b8ad2d33455a8f736fc3a8ebf8f0bdea8848ad4c0db48a2833bd0f9cd775932": "vercel", // Next.js
	"c28fdd2a4f31e2dc64f653962286da5c82a4cdfc518b242d32812c624e9a19a4": "vercel",
	"c0fbce0cd5cd0d3c7b88981acd068d13b961460bb94d3c4ba4a0ec5c28051fd1": "vercel",
	"3fa5cd757b418e18afc68ddebad55f443206e410327921ddb2bf1be731658880": "vercel",
	"f081337b2fee635b455b63275406a3e7f39d6a014e25ad90dab5a67e62a12ac4": "vercel",
	"55995dfad6ecb4945a1e856ddca03c5e16aa5bf13fd21b4df6a74ae79357bcfc": "next",
	"2d0a4f5a77c788b084919b1b8cad5713d9dfc3388ef29969c4cb66c28092e683": "angular",
	"f9102be80297c0529207607be5277b4f90bca89d65988fa1771b91c7894e815f": "angular",
	"5146ed79b486cb9e1cdcdd7814cd22ae78e70ceb30fa06b4cd9a16cf121bc9e6": "svelte",
	"83618713e523a5efce0bd5c393126ee1b214d3f52c8e9821eec2de18b480e338": "svelte",
	"a39f39b75032527099aa1ede54ff2a507065e32e7329a1460a35a3a4d6ea88fe": "svelte",
	"d7d9227f0fe5bfb4189fb6ba4dd9e2d524f6a1dfd02bd901c65330987675c0b3": "svelte",
	"87df40b8fbb4afb4d720b517c369f7e5f23fb818efc62ad581cb734765c54e1a": "svelte",
	"48177e6fc4ded13c83c10fc748f80fc7e83efc6ef7b7eb9ebc095386d67f9bc7": "preact",
	"123b04bc6a1241b3115f86de09908c019f25d4f0d88916ab49c2487121d3dfb5": "solid",
	"c8dae599cd2c134aff51503c0f77f6f486b59372f44afdfbd12490daee6c34c2": "lit",
	"840bed5cc87031158ddde1bb1ca0d9b6f9475c35b31a8efec8f1185c9560e47f": "qwik",
	"7fe55819f14792d942d86092f519b6d425e995337b482a8743e363cf5ac0ae30": "docusaurus",
	"c2ae4b0e5603791e869ed5bc34a60a709d1ec6343fc22f75d97937aaafafd7f7": "docusaurus",
}

// frameworkFile reports whether a file is a framework's default, and of which
// framework. On the framework's own site it is the logo.
func (p *Image) frameworkFile(sum string) (string, bool) {
	name, ok := frameworkFiles[sum]
	if !ok || strings.Contains(site.New(site.Registrable(p.URL.Hostname())).Label, name) {
		return "", false
	}
	return name, true
}
